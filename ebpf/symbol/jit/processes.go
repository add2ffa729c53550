package jit

import (
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/procfs"
)

// How soon, and how often later on, a process is looked at again that lacks a map or a
// dump: compilers begin late, and all mappings of the process have to be read.
const (
	lookAgain     = 10 * time.Second
	lookAgainLate = time.Minute
)

// muchMemory is how many bytes of names make it worthwhile to give the memory back to
// the system when they are forgotten.
const muchMemory = 8 << 20

// Processes knows the code that compilers made in processes. The files of a process
// are opened when it is observed, so that its code can be named when it is gone.
// Its methods may be called concurrently. Only Read waits for files.
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
	next  time.Time     // when it is looked at again
	pause time.Duration // before that
	gone  bool

	reading sync.Mutex // one reader of the files at a time; guards them
	tried   bool       // they were looked for
	perf    *growing   // map, nil if there is none
	dump    *growing   // jitdump, nil if there is none
	reader  dump
	left    allowance
	rest    time.Time // nothing is read before

	mu     sync.Mutex // guards what follows; held while a chunk is parsed, never while one is read
	closed bool
	stale  bool // what the files have now is not read yet
	table  table
	past   past
}

// past is what the files said at the last read of those addresses that somebody asks about now. Code has run there
// since, so a name is that of the code only if it is still the same.
type past struct {
	names   map[uint64]Frame
	written bool // a file was written over since: what it said of other addresses is not known
}

// New returns an empty Processes whose names take at most bytes bytes. Files are
// read by work.
func New(fs procfs.FS, work *filework.Pool, bytes int) *Processes {
	return &Processes{fs: fs, work: work, budget: budget{limit: int64(bytes)}, known: map[uint32]*process{}}
}

// Observe reports that code outside of any file runs in a process. It lets the files
// of a process that is new be opened, and costs next to nothing otherwise.
func (p *Processes) Observe(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[pid]
	if k == nil {
		k = &process{table: table{share: share{of: &p.budget}}}
		p.known[pid] = k
	}
	if !k.due(time.Now()) {
		return
	}
	p.work.Go(p.Origin(pid), fmt.Sprintf("opening the JIT names of process %d", pid), func() { k.lookAgain(p.fs, pid) })
}

// due reports whether a process is to be looked at, and makes each pause twice as long as
// the one before.
func (k *process) due(now time.Time) bool {
	if now.Before(k.next) {
		return false
	}
	k.pause = min(max(2*k.pause, lookAgain), lookAgainLate)
	k.next = now.Add(k.pause)
	return true
}

// Origin is where the files of a process come from.
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

// Read reads on in the files of a process. They may be of a mount that hangs: then it
// does not return. Frame names the addresses afterwards as they were called since the
// last Read.
func (p *Processes) Read(pid uint32, addresses []uint64) {
	p.mu.Lock()
	k := p.known[pid]
	p.mu.Unlock()
	if k != nil {
		k.read(p.fs, pid, addresses)
	}
}

// Frame names an address of a process. ok is false if nothing is known there, as far
// as Read has come. The function is NotRead if another name may have been right when the
// code ran.
func (p *Processes) Frame(pid uint32, addr uint64) (f Frame, ok bool) {
	p.mu.Lock()
	k := p.known[pid]
	p.mu.Unlock()
	if k == nil {
		return Frame{}, false
	}
	return k.find(addr)
}

// find names an address.
func (k *process) find(addr uint64) (f Frame, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stale {
		return Frame{Function: NotRead}, true
	}
	f, ok = k.table.find(addr)
	if was, had := k.past.names[addr]; had && was != f || !had && ok && k.past.written {
		return Frame{Function: NotRead}, true
	}
	return f, ok
}

// namesOf returns what is known of addresses, but for those that nothing is known of.
func (k *process) namesOf(addresses []uint64) map[uint64]Frame {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := map[uint64]Frame{}
	if k.stale {
		return names
	}
	for _, addr := range addresses {
		if f, ok := k.table.find(addr); ok {
			names[addr] = f
		}
	}
	return names
}

// Ended reports that a process has ended. It is known until Forget.
func (p *Processes) Ended(pid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.known[pid]; k != nil {
		k.gone = true
	}
}

// Restarted reports that a process runs another program: nothing is known of it any
// more.
func (p *Processes) Restarted(pid uint32) { p.Forget([]uint32{pid}) }

// Gone returns the processes that have ended, to be forgotten when their samples
// are named.
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

// Forget forgets processes, and gives their memory back.
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

// Close forgets everything.
func (p *Processes) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, k := range p.known {
		delete(p.known, pid)
		k.forget()
	}
}

// Stats are sizes of what is known.
type Stats struct {
	Processes int
	Bytes     uint64 // memory of the names of all of them
	Dropped   uint64 // functions that there was no room for, since the beginning
}

// Stats returns the present sizes.
func (p *Processes) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Processes: len(p.known), Bytes: uint64(max(p.budget.used.Load(), 0)), Dropped: p.budget.dropped.Load()}
}

// forget drops the names of a process. Its files are closed by who reads them now, if
// anybody does: that may hang.
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

// lookAgain opens what there is of the files of a process. What is new is read at once: it may be written over before
// somebody asks for names.
func (k *process) lookAgain(fs procfs.FS, pid uint32) {
	k.reading.Lock()
	defer k.unlock()
	perf, dumped := k.perf, k.dump
	k.open(fs, pid)
	if perf == nil && k.perf != nil {
		k.perf.renew()
		k.readMap()
	}
	if dumped == nil && k.dump != nil {
		k.dump.renew()
		k.readDump()
	}
}

// open opens what there is of the files of a process, as it sees them itself.
func (k *process) open(fs procfs.FS, pid uint32) {
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

// dumpPath returns the path of the jitdump that a process has mapped: compilers
// map a page of it for perf to see.
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

// What was written over is read from the beginning. A file that is written over all the time
// takes a restShare-th of a CPU at most: after it was read it rests, for maxRest at most.
// One that is written over seldom is read at once.
const (
	restShare = 100
	maxRest   = time.Minute
)

// NotRead names code of a process whose files were written over, until they are read again, and code at an address that
// had another name at the read before: what the files say may be of other code than the one that has run.
const NotRead = "[jit code, names are being read]"

// read reads on in both files.
func (k *process) read(fs procfs.FS, pid uint32, addresses []uint64) {
	k.reading.Lock()
	defer k.unlock()
	if !k.tried {
		k.open(fs, pid)
	}
	perf, dumped := k.perf.renew(), k.dump.renew()
	k.remember(past{k.namesOf(addresses), perf || dumped})
	if perf || dumped {
		k.startOver()
	}
	if !k.stale { // which changes with k.reading held only
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

// readOn reads what is new in both files. The caller holds k.reading.
func (k *process) readOn() {
	k.readMap()
	k.readDump()
}

func (k *process) readMap() {
	if k.perf == nil {
		return
	}
	k.perf.read(true, &k.left, k.locked(func(b []byte, _ int64) (int64, error) {
		return int64(k.table.parsePerfMap(b)), nil
	}))
}

func (k *process) readDump() {
	if k.dump == nil {
		return
	}
	k.dump.read(false, &k.left, k.locked(func(b []byte, left int64) (int64, error) {
		return k.reader.parse(&k.table, b, left)
	}))
}

// startOver forgets what was read.
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

// locked is parse with the table locked. Of a process that was forgotten nothing more
// is parsed.
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
