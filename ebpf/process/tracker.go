package process

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Tracker follows processes. Times are CLOCK_MONOTONIC in ns. Safe for
// concurrent use.
type Tracker struct {
	store   Store
	fs      procfs.FS
	exes    *executables
	anon    anonCode
	callees callees
	ahead   stretches

	machine  elf.Machine
	patience time.Duration // with which functions and frames of interpreters are read
	errs     limit.Texts   // by kind of the operation that failed
	limits   limit.Counter

	mu     sync.Mutex // never held while files are read
	state  state
	only   map[uint32]bool  // PIDs of the only processes to sample; nil: all
	lone   map[uint32]bool  // processes whose first thread has ended before others: no record says when they end
	pushed []unwind.Mapping // what the store got last, for its memory
}

// NewTracker returns a Tracker that fills store. work opens files, and languages are whose
// runtimes it knows. Close it after use.
func NewTracker(store Store, fs procfs.FS, work *filework.Pool, languages []runtime.Language) *Tracker {
	t := &Tracker{store: store, fs: fs, exes: newExecutables(store, fs, work, languages), patience: ReadPatience}
	t.machine = elf.EM_X86_64
	if goruntime.GOARCH == "arm64" {
		t.machine = elf.EM_AARCH64
	}
	t.state = newState(t.exes)
	return t
}

// SetReadPatience sets how long the memory of a process is waited for when functions and frames of its interpreter are
// read, 20 ms if it is not called. Call it before the Tracker is used.
func (t *Tracker) SetReadPatience(d time.Duration) { t.patience = d }

// SetOpenPatience sets how long files that are not known yet are waited for, 200 ms if it is not called. Call it before
// the Tracker is used.
func (t *Tracker) SetOpenPatience(d time.Duration) { t.exes.patience = d }

// SetMachine sets the instruction set of the processes, that of this host if it is not called. Call it before the
// Tracker is used.
func (t *Tracker) SetMachine(m elf.Machine) { t.machine = m }

// Close closes all executables.
func (t *Tracker) Close() { t.exes.close() }

// failed notes an error that costs names or stacks, but does not stop anything.
func (t *Tracker) failed(err error) {
	if err != nil {
		t.note(err)
	}
}

// note is failed for an error that there is. A process that has ended meanwhile is none: its samples are of before, and
// whoever reads its memory is late.
func (t *Tracker) note(err error) {
	if errors.Is(err, syscall.ESRCH) {
		return
	}
	t.errs.Add(err.Error(), 1)
	t.limits.Note(err)
}

// Errors returns what went wrong so far and how often, the first few kinds of it.
func (t *Tracker) Errors() map[string]uint64 { return t.errs.Counts() }

// LimitHits returns how often readers of files and of processes' memory stopped at a
// bound.
func (t *Tracker) LimitHits() map[limit.Reader]uint64 { return t.limits.Hits() }

// Scan reads all processes that run now. Call it once the side-band is open, so
// that nothing falls between.
func (t *Tracker) Scan() error {
	pids, err := t.fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, pid := range pids {
		t.scan(pid)
		t.flush()
	}
	return nil
}

// ScanProcess reads a process that runs now, and what its language runtimes say.
func (t *Tracker) ScanProcess(pid uint32) {
	t.scan(pid)
	t.flush()
}

// AwaitRuntimes waits until the language runtimes of a process are known, or not to be had, or patience has passed: who
// looks at the process only now would miss their frames.
func (t *Tracker) AwaitRuntimes(pid uint32, patience time.Duration) {
	for end := time.Now().Add(patience); t.asksRuntimes(pid) && time.Now().Before(end); {
		time.Sleep(retryAttach)
		t.flush()
	}
}

// asksRuntimes reports whether runtimes of a process are still to be asked for their code or frames.
func (t *Tracker) asksRuntimes(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.state.processes[pid]
	return p != nil && p.ended == 0 && (p.interpretation.open() ||
		slices.ContainsFunc(p.attached, func(a *attachment) bool { return len(a.waiting) > 0 && !a.failed }))
}

// scan reads a process's mappings from /proc. Kernel threads have none and are not kept.
func (t *Tracker) scan(pid uint32) {
	t.mu.Lock()
	c := t.state.scan(pid, nil)
	t.mu.Unlock()
	t.run(c)
}

// handle lets an event change what is known, and does what must be done because of it. It
// takes the event's method: an Event would be allocated, of which thousands come a second.
func (t *Tracker) handle(apply func(*state) []Command) {
	t.mu.Lock()
	commands := apply(&t.state)
	t.mu.Unlock()
	t.run(commands...)
}

// run runs commands, and those that come of them.
func (t *Tracker) run(commands ...Command) {
	for _, c := range commands {
		t.handle(c.run(t).apply)
	}
}

// flush publishes what has changed. It asks language runtimes for their code before.
func (t *Tracker) flush() {
	t.mu.Lock()
	commands := append(t.state.attachments(time.Now()), t.state.interpretations(time.Now())...)
	t.mu.Unlock()
	t.run(commands...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publish(time.Now())
}

// Update runs f, which reports side-band records in order of time, and then
// publishes what has changed.
func (t *Tracker) Update(f func(*Batch)) {
	f(&Batch{t})
	t.flush()
}

// Batch takes side-band records.
type Batch struct{ t *Tracker }

// Map reports a new executable mapping.
func (b *Batch) Map(time uint64, pid uint32, m procfs.Mapping) {
	exe, fresh := b.t.exes.known(time, &m)
	b.t.noteNew(exe, fresh)
	b.t.handle(mapped{time: time, pid: pid, mapping: m, exe: exe}.apply)
}

// Exec reports that a process has started a new program, called comm.
func (b *Batch) Exec(time uint64, pid uint32, comm string) { b.t.handle(execed{time, pid, comm}.apply) }

// Comm reports that a process has a new name.
func (b *Batch) Comm(time uint64, pid uint32, comm string) {
	b.t.handle(renamed{time, pid, comm}.apply)
}

// Fork reports a new process, which has what its parent has.
func (b *Batch) Fork(time uint64, parent, pid uint32) {
	b.t.handle(forked{time: time, parent: parent, pid: pid}.apply)
}

// Exit reports the end of a process. It is kept until Reap, for samples that are
// still to be read.
func (b *Batch) Exit(time uint64, pid uint32) { b.t.handle(exited{time, pid}.apply) }

// Until notes that all records until a time have been reported.
func (b *Batch) Until(time uint64) {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	b.t.state.known = max(b.t.state.known, time)
}

// Lost reports that records were lost after a time: everything is read again.
func (b *Batch) Lost(since uint64) {
	alive, err := b.t.fs.PIDs()
	if err != nil {
		b.t.note(fmt.Errorf("list processes: %w", err))
		return
	}
	b.t.handle(recordsLost{alive, since}.apply)
}

// Reap forgets the processes that ended before a time, and returns their PIDs; and
// the mappings of programs that were replaced before it. Call it a few times a second:
// it publishes what was put off, too.
func (t *Tracker) Reap(before uint64) []uint32 {
	t.exes.checkCode()
	t.run(t.followFiles()...)
	for _, pid := range t.exes.takeSlow(time.Now()) {
		if !t.ended(pid) {
			t.scan(pid)
		}
	}
	t.endLone()
	t.flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := t.state.reap(before)
	t.publish(time.Now())
	return gone
}

// noteLone notes that a process goes on without its first thread.
func (t *Tracker) noteLone(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lone == nil {
		t.lone = map[uint32]bool{}
	}
	t.lone[pid] = true
}

// endLone notes which processes without a first thread have ended.
func (t *Tracker) endLone() {
	t.mu.Lock()
	lone := slices.Collect(maps.Keys(t.lone))
	t.mu.Unlock()
	for _, pid := range lone {
		if t.fs.Lives(pid) {
			continue
		}
		t.mu.Lock()
		delete(t.lone, pid)
		t.mu.Unlock()
		t.handle(exited{clock.Monotonic(), pid}.apply)
	}
}

// ended reports whether a process is known to have ended.
func (t *Tracker) ended(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.state.processes[pid]
	return p != nil && p.ended != 0
}

// Sweep drops the executables that nobody has mapped for the given time, and the
// pages of rows that no walk has wanted for a while. It returns the IDs of those
// executables, and of others whose names may be better now, to be forgotten.
func (t *Tracker) Sweep(idle time.Duration) []unwind.ExeID {
	t.store.EvictUnused(pageRest)
	t.sweepInterpreters(time.Now())
	return t.exes.sweep(time.Now().Add(-idle))
}

// pageRest is how long a page stays that no walk looks up. A page that is wanted
// again costs a copy of a stack, so it is not shorter.
const pageRest = time.Minute

// Ignore says whether samples of a process are to be taken.
func (t *Tracker) Ignore(pid uint32, ignore bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.state.processes[pid]; p != nil && p.ignored != ignore {
		p.ignored = ignore
		t.push(p, time.Now())
	}
}

// IgnoreNone lets samples of every process be taken again.
func (t *Tracker) IgnoreNone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.state.processes {
		if p.ignored {
			p.ignored = false
			t.push(p, time.Now())
		}
	}
}

// SampleOnly has samples taken of the processes with these PIDs alone, now and when they start another program; nil: of
// all that are not ignored.
func (t *Tracker) SampleOnly(pids map[uint32]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maps.Equal(t.only, pids) && (t.only == nil) == (pids == nil) {
		return
	}
	t.only = pids
	for _, p := range t.state.processes {
		t.push(p, time.Now())
	}
}

// ignores reports whether no sample of p is to be taken.
func (t *Tracker) ignores(p *Process) bool { return p.ignored || t.only != nil && !t.only[p.PID] }

// Executable returns an executable by its ID, nil when it has been swept.
func (t *Tracker) Executable(id unwind.ExeID) *Executable { return t.exes.byNumber(id) }

// Counts returns the number of processes and executables known.
func (t *Tracker) Counts() (processes, executables int) {
	t.mu.Lock()
	processes = len(t.state.processes)
	t.mu.Unlock()
	t.exes.mu.Lock()
	defer t.exes.mu.Unlock()
	return processes, len(t.exes.byID)
}

// FileMapping is a mapping of a file in a process that lives.
type FileMapping struct {
	PID        uint32
	Exe        *Executable
	Start, End uint64 // addresses
}

// Mapped calls yield with a mapping of each executable that a process has, for those executables that want accepts.
// Neither may call the Tracker.
func (t *Tracker) Mapped(want func(*Executable) bool, yield func(FileMapping)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, p := range t.state.processes {
		if p.ended != 0 {
			continue
		}
		t.state.mergeMappings(p)
		for _, m := range p.mappings {
			if m.exe != nil && m.exe.key.inode != 0 && want(m.exe) {
				yield(FileMapping{pid, m.exe, m.start, m.end})
			}
		}
	}
}

// MayHang reports whether reading the file may take for ever, as on a mount whose server is gone.
func (e *Executable) MayHang() bool { return e.remote }
