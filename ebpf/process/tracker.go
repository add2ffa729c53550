package process

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/object/debugfile"
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

	languages *engine.Engine

	machine elf.Machine
	errs    limit.Texts // texts of errors, by kind
	limits  limit.Counter

	mu     sync.Mutex // never held while files are read
	state  state
	only   map[uint32]bool  // PIDs of the processes to sample; nil if all are sampled
	lone   map[uint32]bool  // processes that outlive their first thread: no record reports their end
	pushed []unwind.Mapping // mappings passed to the store last; the slice is reused
}

// NewTracker returns a Tracker that fills store. It opens files on the workers of work and detects the runtimes of
// languages. Close the Tracker after use.
func NewTracker(store Store, fs procfs.FS, work *filework.Pool, languages []language.Language) *Tracker {
	t := &Tracker{store: store, fs: fs, exes: newExecutables(store, fs, work, languages)}
	t.languages = engine.New(engine.Config{Store: store, Files: t.exes, FS: fs, Work: work, Failed: t.failed})
	t.machine = elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		t.machine = elf.EM_AARCH64
	}
	t.state = newState(t.exes)
	return t
}

// SetReadPatience sets how long the Tracker waits for the memory of a process when it reads functions and frames of the
// process's interpreter (by default 20 ms), and for one read of memory (by default [filework.QuickPatience]). Call it
// before the Tracker is used.
func (t *Tracker) SetReadPatience(d time.Duration) {
	t.languages.SetPatience(d)
	t.exes.work.Patience = d
}

// SetOpenPatience sets how long the Tracker waits for files that are not known yet. The default is 200 ms. Call it
// before the Tracker is used.
func (t *Tracker) SetOpenPatience(d time.Duration) { t.exes.patience = d }

// SetMachine sets the instruction set of the processes. The default is the host's. Call it before the Tracker is used.
func (t *Tracker) SetMachine(m elf.Machine) { t.machine = m }

// DebugFiles returns the Finder of separate debug files that the Tracker uses.
func (t *Tracker) DebugFiles() *debugfile.Finder { return t.exes.debug }

// Close closes all executables.
func (t *Tracker) Close() { t.exes.close() }

// failed notes an error, if there is one, that loses names or stacks but does not stop the Tracker.
func (t *Tracker) failed(err error) {
	if err != nil {
		t.noteError(err)
	}
}

// noteError notes an error that is not nil. It ignores ESRCH: the process has ended, so its memory can no longer be
// read, but its samples are from before.
func (t *Tracker) noteError(err error) {
	if errors.Is(err, syscall.ESRCH) {
		return
	}
	t.errs.Add(err.Error(), 1)
	t.limits.Note(err)
}

// Errors returns the errors so far and how often each occurred, for the first few kinds of errors.
func (t *Tracker) Errors() map[string]uint64 { return t.errs.Counts() }

// LimitHits returns how often readers of files and of processes' memory stopped at a limit.
func (t *Tracker) LimitHits() map[limit.Reader]uint64 { return t.limits.Hits() }

// Scan reads all running processes. Call it after the side-band is open, so that it misses no process.
func (t *Tracker) Scan() error {
	pids, err := t.fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, pid := range pids {
		t.scanProcess(pid)
		t.flush()
	}
	return nil
}

// ScanProcess reads a running process and asks its language runtimes for their code and frames.
func (t *Tracker) ScanProcess(pid uint32) {
	t.scanProcess(pid)
	t.flush()
}

// AwaitRuntimes waits until the language runtimes of a process are known or cannot be known, or until patience has
// passed. A View taken earlier misses their frames.
func (t *Tracker) AwaitRuntimes(pid uint32, patience time.Duration) {
	for end := time.Now().Add(patience); t.asksRuntimes(pid) && time.Now().Before(end); {
		time.Sleep(retryAttach)
		t.flush()
	}
}

// asksRuntimes reports whether some runtimes of a process have not answered yet where their code or frames are.
func (t *Tracker) asksRuntimes(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.state.processes[pid]
	return p != nil && p.ended == 0 && (p.interpreted.isOpen() ||
		slices.ContainsFunc(p.attached, func(a *attachment) bool { return len(a.waiting) > 0 && !a.failed }))
}

// scanProcess reads a process's mappings from /proc. Kernel threads have none and are not kept.
func (t *Tracker) scanProcess(pid uint32) {
	t.mu.Lock()
	c := t.state.scanCommand(pid, nil)
	t.mu.Unlock()
	t.runCommands(c)
}

// handle applies an event to the state and runs the resulting commands. It takes the event's method, not an Event:
// thousands of events come each second, and each would be allocated for the interface.
func (t *Tracker) handle(apply func(*state) []Command) {
	t.mu.Lock()
	commands := apply(&t.state)
	t.mu.Unlock()
	t.runCommands(commands...)
}

// runCommands runs commands and the commands that result from them.
func (t *Tracker) runCommands(commands ...Command) {
	for _, c := range commands {
		t.handle(c.run(t).apply)
	}
}

// flush asks language runtimes for their code, and then publishes the changes.
func (t *Tracker) flush() {
	t.mu.Lock()
	commands := append(t.state.attachments(time.Now()), t.state.runtimeCommands(time.Now())...)
	t.mu.Unlock()
	t.runCommands(commands...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publish(time.Now())
}

// Update runs f, which reports side-band records in order of time, and then publishes the changes.
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

// Fork reports a new process, which inherits its parent's name, mappings and code.
func (b *Batch) Fork(time uint64, parent, pid uint32) {
	b.t.handle(forked{time: time, parent: parent, pid: pid}.apply)
}

// Exit reports the end of a process. The Tracker keeps the process until Reap, for samples that are not read yet.
func (b *Batch) Exit(time uint64, pid uint32) { b.t.handle(exited{time, pid}.apply) }

// Until notes that all records until a time have been reported.
func (b *Batch) Until(time uint64) {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	b.t.state.known = max(b.t.state.known, time)
}

// Lost reports that records after a time were lost. The Tracker reads all processes again.
func (b *Batch) Lost(since uint64) {
	alive, err := b.t.fs.PIDs()
	if err != nil {
		b.t.noteError(fmt.Errorf("list processes: %w", err))
		return
	}
	b.t.handle(recordsLost{alive, since}.apply)
}

// Reap forgets the processes that ended before a time and returns their PIDs. It also forgets the mappings of programs
// that were replaced before that time. Call it a few times a second: it also publishes changes that were deferred.
func (t *Tracker) Reap(before uint64) []uint32 {
	t.exes.checkCode()
	t.runCommands(t.followFiles()...)
	for _, pid := range t.exes.takeSlow(time.Now()) {
		if !t.ended(pid) {
			t.scanProcess(pid)
		}
	}
	t.endLone()
	t.flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := t.state.reapBefore(before)
	t.publish(time.Now())
	return gone
}

// noteLone notes that a process continues without its first thread.
func (t *Tracker) noteLone(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lone == nil {
		t.lone = map[uint32]bool{}
	}
	t.lone[pid] = true
}

// endLone notes the end of processes that outlived their first thread.
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

// Sweep drops the executables that no process has mapped for the given time, and the pages of rows that no walk has
// used for pageRest. It returns the IDs of executables to forget: the dropped ones, and those whose names may be better
// now.
func (t *Tracker) Sweep(idle time.Duration) []unwind.ExeID {
	t.store.EvictUnused(pageRest)
	t.languages.Sweep(t.presentInterpreters(), time.Now())
	return t.exes.sweep(time.Now().Add(-idle))
}

// presentInterpreters returns the interpreters of all processes and of their earlier programs.
func (t *Tracker) presentInterpreters() map[*engine.Interpreter]bool {
	present := map[*engine.Interpreter]bool{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.state.processes {
		if p.interpreted != nil {
			present[p.interpreted.interpreter] = true
		}
		for _, old := range p.epochs {
			if old.interpreted != nil {
				present[old.interpreted.interpreter] = true
			}
		}
	}
	return present
}

// Interpreter returns the interpreter whose functions an executable stands for, or false for a file.
func (t *Tracker) Interpreter(exe unwind.ExeID) (*engine.Interpreter, bool) {
	return t.languages.ByFile(exe)
}

// Languages returns the registry of the interpreters of all processes.
func (t *Tracker) Languages() *engine.Engine { return t.languages }

// pageRest is how long a page stays resident without a lookup. It is not shorter because a walk that misses a dropped
// page costs a copy of a stack.
const pageRest = time.Minute

// Ignore stops the sampling of a process, or resumes it.
func (t *Tracker) Ignore(pid uint32, ignore bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.state.processes[pid]; p != nil && p.ignored != ignore {
		p.ignored = ignore
		t.pushProcess(p, time.Now())
	}
}

// IgnoreNone resumes the sampling of all ignored processes.
func (t *Tracker) IgnoreNone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.state.processes {
		if p.ignored {
			p.ignored = false
			t.pushProcess(p, time.Now())
		}
	}
}

// SampleOnly restricts sampling to the processes with these PIDs, also after they start another program. With nil, all
// processes are sampled that are not ignored.
func (t *Tracker) SampleOnly(pids map[uint32]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maps.Equal(t.only, pids) && (t.only == nil) == (pids == nil) {
		return
	}
	t.only = pids
	for _, p := range t.state.processes {
		t.pushProcess(p, time.Now())
	}
}

// ignores reports whether p is not sampled.
func (t *Tracker) ignores(p *Process) bool { return p.ignored || t.only != nil && !t.only[p.PID] }

// Executable returns an executable by its ID, or nil after Sweep has dropped it.
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

// FileMapping is a mapping of a file in a running process.
type FileMapping struct {
	PID        uint32
	Exe        *Executable
	Start, End uint64 // addresses
}

// Mapped calls yield for each file mapping of the running processes whose executable want accepts. Neither function may
// call the Tracker.
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

// MayHang reports whether reads of the file may block forever, as on a mount whose server is gone.
func (e *Executable) MayHang() bool { return e.remote }
