package process

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

// Process is what is known of one process.
type Process struct {
	PID  uint32
	comm string

	before     string // the name until renamed
	renamed    uint64 // time, 0: never
	started    uint64 // time of its last exec, or fork, 0: before the Tracker
	ended      uint64 // time, 0: it lives
	generation uint32 // of the mappings when started
	replaced   change // the last time that another file came to a place that had one
	relative   uint32 // PID of a process in the store that runs the same program, or 0

	mappings mappings
	added    mappings       // in order of time, not yet among mappings
	last     procfs.Mapping // the last of them
	previous []program      // those that it ran before, oldest first; dropped by Reap
	ignored  bool
	vm       virtualMachine
	dirty    bool      // mappings differ from the store's
	pushed   time.Time // when the store was last told

	scanned time.Time     // when /proc was last read
	pause   time.Duration // until it may be read again
}

// change is when mappings changed so that those of before are wrong.
type change struct {
	time       uint64 // 0: never
	generation uint32 // of the first mappings that the store was told afterwards; 0: not yet
}

// after reports whether mappings of a generation are older than the change, though at
// that time it had happened.
func (c change) after(time uint64, generation uint32) bool {
	return c.time != 0 && time >= c.time && (c.generation == 0 || generation < c.generation)
}

// program is what a process ran until it executed another one.
type program struct {
	until    uint64 // time
	mappings mappings
}

// maxPrevious is how many programs of a process are remembered.
const maxPrevious = 64

// Tracker follows processes. Times are CLOCK_MONOTONIC in ns. Safe for
// concurrent use.
type Tracker struct {
	store Store
	fs    procfs.FS
	exes  *executables
	made  madeCode

	mu         sync.Mutex
	processes  map[uint32]*Process
	dirty      []*Process
	ended      []*Process
	replaced   []*Process // with previous programs
	generation uint32
	errs       map[string]uint64 // by text of the operation that failed
}

// NewTracker returns a Tracker that fills store. Close it after use.
func NewTracker(store Store, fs procfs.FS) *Tracker {
	return &Tracker{
		store:     store,
		fs:        fs,
		exes:      newExecutables(store, fs),
		processes: map[uint32]*Process{},
		errs:      map[string]uint64{},
	}
}

// Close closes all executables.
func (t *Tracker) Close() { t.exes.close() }

// failed notes an error that costs names or stacks, but does not stop anything.
func (t *Tracker) failed(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	t.note(err)
	t.mu.Unlock()
}

func (t *Tracker) note(err error) {
	const most = 256
	if _, ok := t.errs[err.Error()]; ok || len(t.errs) < most {
		t.errs[err.Error()]++
	}
}

// Errors returns what went wrong so far and how often, the first few kinds of it.
func (t *Tracker) Errors() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.errs)
}

// Scan reads all processes that run now. Call it once the side-band is open, so
// that nothing falls between.
func (t *Tracker) Scan() error {
	pids, err := t.fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, pid := range pids {
		t.mu.Lock()
		t.scan(pid)
		t.flush()
		t.mu.Unlock()
	}
	return nil
}

// scan reads a process's mappings from /proc. Kernel threads have none and are
// not kept.
func (t *Tracker) scan(pid uint32) *Process {
	maps, err := t.fs.ExecMappings(pid)
	if err != nil || len(maps) == 0 {
		return t.processes[pid]
	}
	p := t.processes[pid]
	if p == nil {
		p = t.add(pid)
	}
	if p.started == 0 || p.comm == "" {
		if comm, err := t.fs.Comm(pid); err == nil {
			p.comm = comm
		}
	}
	p.scanned = time.Now()
	t.settle(p)
	old := p.mappings
	p.mappings = nil
	p.vm.waiting = nil
	if e := p.vm.code; e != nil {
		t.exes.keep(e)
		p.added = append(p.added, codeMapping(e))
	}
	for _, files := range []bool{true, false} { // the Java VM before the code that it made
		for _, m := range maps {
			if m.HasFile() == files {
				t.addMapping(p, m, "")
			}
		}
	}
	t.drop(old)
	t.touch(p)
	return p
}

func (t *Tracker) add(pid uint32) *Process {
	if old := t.processes[pid]; old != nil {
		t.remove(old)
	}
	p := &Process{PID: pid}
	t.processes[pid] = p
	return p
}

// remove forgets a process at once.
func (t *Tracker) remove(p *Process) {
	t.dropMappings(p)
	if t.processes[p.PID] == p {
		delete(t.processes, p.PID)
		if err := t.store.DeleteProcess(p.PID); err != nil {
			t.note(err)
		}
	}
}

func (t *Tracker) dropMappings(p *Process) {
	t.settle(p)
	t.drop(p.mappings)
	p.mappings = nil
	t.dropPrevious(p, len(p.previous))
}

// dropPrevious forgets the n oldest programs.
func (t *Tracker) dropPrevious(p *Process, n int) {
	for _, old := range p.previous[:n] {
		t.drop(old.mappings)
	}
	p.previous = slices.Delete(p.previous, 0, n)
}

func (t *Tracker) drop(ms mappings) {
	for _, m := range ms {
		t.exes.release(m.exe)
	}
}

func (t *Tracker) addMapping(p *Process, m procfs.Mapping, buildID string) {
	if p.vm.holds(&m) {
		if p.vm.code == nil {
			p.vm.waiting = append(p.vm.waiting, m)
		}
		return
	}
	e := t.executable(p, m, buildID)
	added := newMapping(m, e)
	if e.isHotSpot() && added.exe != nil && p.vm.library == nil {
		p.vm.library, p.vm.bias = e, added.bias
	}
	if added.exe == nil {
		t.exes.release(e)
	}
	p.added, p.last = append(p.added, added), m
}

// executable returns what m maps, kept once more. Neighbours are often of one file,
// and to find out which file one is costs system calls.
func (t *Tracker) executable(p *Process, m procfs.Mapping, buildID string) *Executable {
	if n := len(p.added); n > 0 && m.Inode != 0 && m.Inode == p.last.Inode && m.Dev == p.last.Dev && m.Path == p.last.Path {
		if e := p.added[n-1].exe; e != nil {
			t.exes.keep(e)
			return e
		}
	}
	e, fresh := t.exes.get(p.PID, m, buildID)
	if fresh && e.Err != nil {
		t.note(e.Err)
	}
	return e
}

// settle puts the mappings that were added among the others: many at once, for a
// process may have ten thousand.
func (t *Tracker) settle(p *Process) {
	added := p.added
	p.added = nil
	for len(added) > 0 {
		n := added.disjointPrefix()
		at := slices.Clone(added[:n])
		at.disjoint() // sorts them
		p.mappings = p.mappings.overlay(at, t.exes.keep, t.exes.release)
		added = added[n:]
	}
}

// Update runs f, which reports side-band records in order of time, and then
// tells the store what has changed.
func (t *Tracker) Update(f func(*Batch)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&Batch{t})
	t.flush()
}

// Batch takes side-band records.
type Batch struct{ t *Tracker }

// Map reports a new executable mapping. buildID may be "".
func (b *Batch) Map(time uint64, pid uint32, m procfs.Mapping, buildID string) {
	t := b.t
	p := t.processes[pid]
	if p == nil {
		t.scan(pid) // finds this mapping too, unless the process has gone
		if p = t.processes[pid]; p == nil {
			p = t.add(pid)
		}
	}
	if time < p.started {
		return // of the program that ran before
	}
	old, ok := p.mappings.find(m.Start)
	t.addMapping(p, m, buildID)
	if ok && old.exe != p.added[len(p.added)-1].exe && (p.replaced.time == 0 || p.replaced.generation != 0) {
		p.replaced = change{time: time}
	}
	t.touch(p)
}

// Exec reports that a process has started a new program, called comm.
func (b *Batch) Exec(time uint64, pid uint32, comm string) {
	p := b.t.processes[pid]
	if p == nil {
		p = b.t.add(pid)
	}
	b.t.settle(p)
	if len(p.mappings) > 0 {
		if len(p.previous) == 0 {
			b.t.replaced = append(b.t.replaced, p)
		}
		b.t.dropPrevious(p, max(0, len(p.previous)+1-maxPrevious))
		p.previous = append(p.previous, program{time, p.mappings})
		p.mappings = nil
	}
	p.rename(time, comm)
	p.started, p.generation, p.relative, p.ignored, p.replaced = time, 0, 0, false, change{}
	p.vm = virtualMachine{}
	b.t.touch(p)
}

// Comm reports that a process has a new name.
func (b *Batch) Comm(time uint64, pid uint32, comm string) {
	if p := b.t.processes[pid]; p != nil && time >= p.started {
		p.rename(time, comm)
	}
}

// Fork reports a new process, which has what its parent has.
func (b *Batch) Fork(time uint64, parent, pid uint32) {
	t := b.t
	if p := t.processes[pid]; p != nil && p.started > time {
		return // it has executed a program since
	}
	from := t.processes[parent]
	if from == nil {
		if from = t.scan(parent); from == nil {
			t.scan(pid)
			return
		}
	}
	t.settle(from)
	p := t.add(pid)
	p.comm, p.started, p.relative = from.comm, time, parent
	p.mappings = slices.Clone(from.mappings)
	p.vm = virtualMachine{library: from.vm.library, bias: from.vm.bias, code: from.vm.code, failed: from.vm.failed}
	for _, m := range p.mappings {
		t.exes.keep(m.exe)
	}
	t.touch(p)
}

// Exit reports the end of a process. It is kept until Reap, for samples that are
// still to be read.
func (b *Batch) Exit(time uint64, pid uint32) {
	p := b.t.processes[pid]
	if p == nil || p.started > time || p.ended != 0 {
		return
	}
	p.ended = time
	b.t.ended = append(b.t.ended, p)
}

// Lost reports that records were lost: everything is read anew.
func (b *Batch) Lost() {
	pids, err := b.t.fs.PIDs()
	if err != nil {
		b.t.note(fmt.Errorf("list processes: %w", err))
		return
	}
	alive := map[uint32]bool{}
	for _, pid := range pids {
		alive[pid] = true
		b.t.scan(pid)
	}
	for pid, p := range b.t.processes {
		if !alive[pid] && p.ended == 0 {
			p.ended = 1
			b.t.ended = append(b.t.ended, p)
		}
	}
}

func (p *Process) rename(time uint64, comm string) {
	if comm == p.comm {
		return
	}
	p.before, p.renamed, p.comm = p.comm, time, comm
}

// Reap forgets the processes that ended before a time, and returns their PIDs; and
// the mappings of programs that were replaced before it. Call it a few times a second:
// it tells the store what has changed and was put off, too.
func (t *Tracker) Reap(before uint64) []uint32 {
	t.exes.checkCode()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	t.replaced = slices.DeleteFunc(t.replaced, func(p *Process) bool {
		old := slices.IndexFunc(p.previous, func(r program) bool { return r.until >= before })
		if old >= 0 {
			t.dropPrevious(p, old)
			return false
		}
		t.dropPrevious(p, len(p.previous))
		return true
	})
	var gone []uint32
	t.ended = slices.DeleteFunc(t.ended, func(p *Process) bool {
		if p.ended >= before {
			return false
		}
		t.remove(p)
		gone = append(gone, p.PID)
		return true
	})
	return gone
}

// Sweep drops the executables that nobody has mapped for the given time, and
// returns their IDs; and the pages of rows that no walk has wanted for a while.
func (t *Tracker) Sweep(idle time.Duration) []uint32 {
	t.store.EvictUnused(pageRest)
	return t.exes.sweep(time.Now().Add(-idle))
}

// pageRest is how long a page stays that no walk looks up. A page that is wanted
// again costs a copy of a stack, so it is not shorter.
const pageRest = time.Minute

// Ignore says whether samples of a process are to be taken.
func (t *Tracker) Ignore(pid uint32, ignore bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.processes[pid]; p != nil && p.ignored != ignore {
		p.ignored = ignore
		t.push(p)
	}
}

// IgnoreNone lets samples of every process be taken again.
func (t *Tracker) IgnoreNone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.processes {
		if p.ignored {
			p.ignored = false
			t.push(p)
		}
	}
}

// Comm returns the name that a process had at a time, and whether the process
// is known.
func (t *Tracker) Comm(pid uint32, time uint64) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	switch {
	case p == nil:
		return "", false
	case p.renamed > time && p.before != "":
		return p.before, true
	}
	return p.comm, true
}

// Stale reports whether mappings of the given generation are not those that the
// process had at a time: it had started another program by then, or put another file
// where there was one.
func (t *Tracker) Stale(pid uint32, time uint64, generation uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil || generation == 0 {
		return false
	}
	return p.started != 0 && time >= p.started && generation < p.generation || p.replaced.after(time, generation)
}

// Executable returns an executable by its ID, nil when it has been swept.
func (t *Tracker) Executable(id uint32) *Executable { return t.exes.byNumber(id) }

// Counts returns the number of processes and executables known.
func (t *Tracker) Counts() (processes, executables int) {
	t.mu.Lock()
	processes = len(t.processes)
	t.mu.Unlock()
	t.exes.mu.Lock()
	defer t.exes.mu.Unlock()
	return processes, len(t.exes.byID)
}
