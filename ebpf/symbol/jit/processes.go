package jit

import (
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// The first and the maximum interval at which a process without a map or a dump is checked again: compilers start late,
// and a check reads all mappings of the process.
const (
	lookAgain     = 10 * time.Second
	lookAgainLate = time.Minute
)

// muchMemory is the size of forgotten names in bytes above which memory is returned to the system at once.
const muchMemory = 8 << 20

// Processes names the code that compilers made in processes. The files of a process are opened when it is observed, so
// that its code can be named after its end. Methods may be called concurrently. Only Read waits for files.
type Processes struct {
	fs     procfs.FS
	work   *filework.Pool
	budget budget

	mu    sync.Mutex
	known map[uint32]*process
}

// process is one process.
type process struct {
	// Guarded by the mutex of Processes.
	next  time.Time     // time of the next check
	pause time.Duration // interval before next
	gone  bool

	reading sync.Mutex // held by the one reader of the files; guards them
	tried   bool       // the files were searched
	perf    *growing   // map, nil if there is none
	dump    *growing   // jitdump, nil if there is none
	reader  dump
	left    allowance
	rest    time.Time // no read before this time

	mu     sync.Mutex // guards the following fields; held while a chunk is parsed, never during a read
	closed bool
	stale  bool // the current content of the files is not read yet
	table  table
	past   past
}

// past is the result of the previous read for the addresses in the current request. The code ran after that read, so a
// name is certain only if it is unchanged.
type past struct {
	names   map[uint64]Frame
	written bool // a file was overwritten since: the previous names of other addresses are unknown
}

// New returns an empty Processes whose names take at most bytes bytes. work reads the files.
func New(fs procfs.FS, work *filework.Pool, bytes int) *Processes {
	return &Processes{fs: fs, work: work, budget: budget{limit: int64(bytes)}, known: map[uint32]*process{}}
}

// Observe reports that code outside of any file runs in a process. It starts opening the files of a new process, and
// otherwise costs almost no time.
func (p *Processes) Observe(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[pid]
	if k == nil {
		k = &process{table: table{share: share{of: &p.budget}}}
		p.known[pid] = k
	}
	if !k.isDue(time.Now()) {
		return
	}
	p.work.Go(p.Origin(pid), fmt.Sprintf("opening the JIT names of process %d", pid), func() { k.lookAgain(p.fs, pid) })
}

// isDue reports whether a process must be checked now, and doubles the interval to the next check.
func (k *process) isDue(now time.Time) bool {
	if now.Before(k.next) {
		return false
	}
	k.pause = min(max(2*k.pause, lookAgain), lookAgainLate)
	k.next = now.Add(k.pause)
	return true
}

// Origin returns the origin of the files of a process.
func (p *Processes) Origin(pid uint32) filework.Origin {
	owner := p.fs.Owner(pid)
	return filework.Origin{Mount: fmt.Sprintf("%s of user %d", p.fs.MountNamespace(pid), owner), Owner: owner}
}

// Knows reports whether a process was observed.
func (p *Processes) Knows(pid uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[pid] != nil
}

// Read reads the new parts of the files of a process. If the files are on a mount that hangs, Read does not return.
// After Read, Frame uses the names that the addresses have had since the last Read.
func (p *Processes) Read(pid uint32, addresses []uint64) {
	p.mu.Lock()
	k := p.known[pid]
	p.mu.Unlock()
	if k != nil {
		k.readFiles(p.fs, pid, addresses)
	}
}

// Frame names an address of a process. ok is false if no function is known there as of the last Read. The function is
// NotRead if the code may have had a different name when it ran.
func (p *Processes) Frame(pid uint32, addr uint64) (f Frame, ok bool) {
	p.mu.Lock()
	k := p.known[pid]
	p.mu.Unlock()
	if k == nil {
		return Frame{}, false
	}
	return k.findFrame(addr)
}

// findFrame names an address.
func (k *process) findFrame(addr uint64) (f Frame, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stale {
		return Frame{Function: NotRead}, true
	}
	f, ok = k.table.findFrame(addr)
	if was, had := k.past.names[addr]; had && was != f || !had && ok && k.past.written {
		return Frame{Function: NotRead}, true
	}
	return f, ok
}

// namesOf returns the names of the addresses that have one.
func (k *process) namesOf(addresses []uint64) map[uint64]Frame {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := map[uint64]Frame{}
	if k.stale {
		return names
	}
	for _, addr := range addresses {
		if f, ok := k.table.findFrame(addr); ok {
			names[addr] = f
		}
	}
	return names
}

// Ended reports that a process has ended. Its names stay until Forget.
func (p *Processes) Ended(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.known[pid]; k != nil {
		k.gone = true
	}
}

// Restarted reports that a process runs another program: all its names are dropped.
func (p *Processes) Restarted(pid uint32) { p.Forget([]uint32{pid}) }

// Gone returns the ended processes. Callers forget them after they have named their samples.
func (p *Processes) Gone() (pids []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, k := range p.known {
		if k.gone {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Forget drops processes, and frees their memory.
func (p *Processes) Forget(pids []uint32) {
	before := p.budget.used.Load()
	for _, pid := range pids {
		p.mu.Lock()
		k := p.known[pid]
		delete(p.known, pid)
		p.mu.Unlock()
		if k != nil {
			k.forget()
		}
	}
	if before-p.budget.used.Load() >= muchMemory {
		debug.FreeOSMemory()
	}
}

// Close drops all processes.
func (p *Processes) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, k := range p.known {
		delete(p.known, pid)
		k.forget()
	}
}

// Stats are the sizes of a Processes.
type Stats struct {
	Processes int
	Bytes     uint64 // memory of all names
	Dropped   uint64 // functions dropped because of the budget, in total
}

// Stats returns the current sizes.
func (p *Processes) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Processes: len(p.known), Bytes: uint64(max(p.budget.used.Load(), 0)), Dropped: p.budget.dropped.Load()}
}

// forget drops the names of a process. A read of its files may hang, so the reader, if there is one, closes the files.
func (k *process) forget() {
	k.mu.Lock()
	k.closed = true
	k.table.clear()
	k.mu.Unlock()
	if k.reading.TryLock() {
		k.unlock()
	}
}

// unlock ends the use of the files, and closes them if the process was forgotten.
func (k *process) unlock() {
	k.mu.Lock()
	closed := k.closed
	if closed {
		k.table.clear()
	}
	k.mu.Unlock()
	if closed {
		k.perf.close()
		k.dump.close()
		k.perf, k.dump = nil, nil
	}
	k.reading.Unlock()
}

// lookAgain opens the files of a process that exist. New files are read at once: they may be overwritten before names
// are requested.
func (k *process) lookAgain(fs procfs.FS, pid uint32) {
	k.reading.Lock()
	defer k.unlock()
	perf, dumped := k.perf, k.dump
	k.openFiles(fs, pid)
	if perf == nil && k.perf != nil {
		k.perf.renew()
		k.readMap()
	}
	if dumped == nil && k.dump != nil {
		k.dump.renew()
		k.readDump()
	}
}

// openFiles opens the files of a process that exist, in the process's own view.
func (k *process) openFiles(fs procfs.FS, pid uint32) {
	k.tried = true
	inner, uid, err := fs.Identity(pid)
	if err != nil {
		return
	}
	root := fs.RootPath(pid, "")
	if k.perf == nil {
		k.perf = openGrowing(root, fmt.Sprintf("/tmp/perf-%d.map", inner), uid)
	}
	if k.dump == nil {
		if name := dumpPath(fs, pid, inner); name != "" {
			k.dump = openGrowing(root, name, uid)
		}
	}
}

// dumpPath returns the path of the jitdump that a process has mapped: compilers map a page of it as a sign for perf.
func dumpPath(fs procfs.FS, pid, inner uint32) string {
	mappings, err := fs.ExecMappings(pid)
	if err != nil {
		return ""
	}
	want := fmt.Sprintf("jit-%d.dump", inner)
	for _, m := range mappings {
		if path.Base(m.Path) == want && strings.HasPrefix(m.Path, "/") {
			return m.Path
		}
	}
	return ""
}

// An overwritten file is read from the start. A file that is overwritten all the time takes at most 1/restShare of a
// CPU: after a read, the next read is delayed, by maxRest at most. A file that is overwritten rarely is read at once.
const (
	restShare = 100
	maxRest   = time.Minute
)

// NotRead is the name of code in a process whose files were overwritten, until they are read again, and of code at an
// address that had a different name at the previous read: the files may describe code other than the code that ran.
const NotRead = "[jit code, names are being read]"

// readFiles reads the new parts of both files.
func (k *process) readFiles(fs procfs.FS, pid uint32, addresses []uint64) {
	k.reading.Lock()
	defer k.unlock()
	if !k.tried {
		k.openFiles(fs, pid)
	}
	perf, dumped := k.perf.renew(), k.dump.renew()
	k.remember(past{k.namesOf(addresses), perf || dumped})
	if perf || dumped {
		k.startOver()
	}
	if !k.stale { // stale changes only with k.reading held
		k.readOn()
		return
	}
	if time.Now().Before(k.rest) {
		return
	}
	took := clock.CPUTime(k.readOn)
	k.rest = time.Now().Add(min(restShare*took, maxRest))
	k.setStale(false)
}

func (k *process) remember(p past) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.past = p
}

func (k *process) setStale(stale bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stale = stale
}

// readOn reads the new parts of both files. The caller holds k.reading.
func (k *process) readOn() {
	k.readMap()
	k.readDump()
}

func (k *process) readMap() {
	if k.perf == nil {
		return
	}
	k.perf.readGrown(true, &k.left, k.locked(func(b []byte, _ int64) (int64, error) {
		return int64(k.table.parsePerfMap(b)), nil
	}))
}

func (k *process) readDump() {
	if k.dump == nil {
		return
	}
	k.dump.readGrown(false, &k.left, k.locked(func(b []byte, left int64) (int64, error) {
		return k.reader.parse(&k.table, b, left)
	}))
}

// startOver drops all read data.
func (k *process) startOver() {
	k.reader = dump{}
	k.mu.Lock()
	k.table.clear()
	k.stale = true
	k.mu.Unlock()
	for _, g := range []*growing{k.perf, k.dump} {
		if g != nil {
			g.restart()
		}
	}
}

// locked returns parse with the table locked. After the process was forgotten, it does not parse.
func (k *process) locked(parse func([]byte, int64) (int64, error)) func([]byte, int64) (int64, error) {
	return func(b []byte, left int64) (int64, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.closed {
			return 0, nil
		}
		return parse(b, left)
	}
}
