package profile

import (
	"cmp"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Names are read by workers, each for one executable or one process's JIT compiler. A
// round waits for half of the time that passed since the end of the one before, within
// bounds; what is not read then has its names in the next round. A user may have files
// whose names are never ready: a round that waited long must not make the next one wait
// longer, and rounds that are due every two seconds must come all the same.
const (
	minPatience  = time.Second
	maxPatience  = 5 * time.Second
	lastPatience = 2 * time.Second // once the end was asked for
	// firstTurn is how long one job is waited for before the next is begun.
	firstTurn = 250 * time.Millisecond
	// nextTurn is how long it is waited for when all have had their first.
	nextTurn = 10 * time.Millisecond
)

// patienceAfter returns how long a round waits for names.
func patienceAfter(passed time.Duration) time.Duration {
	return min(max(passed/2, minPatience), maxPatience)
}

// readers know which jobs of earlier rounds still run. Safe for concurrent use.
type readers struct {
	files *filework.Pool
	ends  atomic.Pointer[time.Time] // when the end was asked for; nil: it was not

	mu   sync.Mutex
	busy map[job]*filework.Task
	late map[unwind.ExeID]error // executables whose names were not ready in the last round, and why
}

func newReaders(files *filework.Pool) *readers {
	return &readers{files: files, busy: map[job]*filework.Task{}, late: map[unwind.ExeID]error{}}
}

// job is what is read at once: the names of an executable, or those that a process's
// JIT compiler has written.
type job struct {
	exe unwind.ExeID // 0: JIT names
	pid uint32
}

// work is a job, and what it takes.
type work struct {
	job
	what   string
	origin filework.Origin
	read   func() // for the job's addresses
	use    func() // called when read is done, by who waits for it

	task *filework.Task
	err  error // why it is not done
}

// hurry lets the round under way wait lastPatience at most from now on, and the last one as well.
func (r *readers) hurry() {
	now := time.Now()
	r.ends.CompareAndSwap(nil, &now)
}

// left is for how long a round that began at some time may still wait.
func (r *readers) left(began time.Time, patience time.Duration) time.Duration {
	deadline := began.Add(patience)
	if ends := r.ends.Load(); ends != nil {
		if ends.After(began) {
			began = *ends
		}
		if last := began.Add(lastPatience); last.Before(deadline) {
			deadline = last
		}
	}
	return max(time.Until(deadline), 0)
}

// run does all of the work that is done within the given time. It returns the rest.
func (r *readers) run(all []*work, patience time.Duration) (rest []*work) {
	began := time.Now()
	turn := firstTurn
	for {
		var again []*work
		for _, w := range all {
			switch r.step(w, min(turn, r.left(began, patience))) {
			case done:
				w.use()
			case hopeless:
				rest = append(rest, w)
			case later:
				again = append(again, w)
			}
		}
		if len(again) == 0 || r.left(began, patience) == 0 {
			return append(rest, again...)
		}
		all, turn = again, nextTurn
	}
}

// progress is how a piece of work stands.
type progress int

const (
	done progress = iota
	later
	hopeless // not in this round
)

// step begins a piece of work, if that is allowed, and waits for it.
func (r *readers) step(w *work, patience time.Duration) progress {
	if w.task == nil {
		if w.err = r.start(w); w.err != nil {
			if filework.Hangs(w.err) {
				return hopeless
			}
			time.Sleep(min(patience, nextTurn))
			return later
		}
	}
	if w.err = r.files.Wait(w.task, patience); w.err == nil {
		return done
	}
	if filework.Hangs(w.err) {
		return hopeless
	}
	return later
}

// start begins a piece of work, unless an earlier round's still runs.
func (r *readers) start(w *work) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.busy[w.job]; before != nil {
		if err := r.files.Wait(before, 0); err != nil {
			return err
		}
	}
	if w.task, err = r.files.Start(w.origin, w.what, w.read); err == nil {
		r.busy[w.job] = w.task
	}
	return err
}

// ended forgets the jobs that are done, and notes why others are not.
func (r *readers) ended(rest []*work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for j, task := range r.busy {
		if r.files.Wait(task, 0) == nil {
			delete(r.busy, j)
		}
	}
	clear(r.late)
	for _, w := range rest {
		if w.exe != 0 {
			r.late[w.exe] = w.err
		}
	}
}

// why returns why names of an executable were not ready in the last round, nil if they were.
func (r *readers) why(exe unwind.ExeID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late[exe]
}

// exeAddress is an address of an executable.
type exeAddress struct {
	exe      unwind.ExeID
	vaddr    uint64
	returned bool
}

func (a exeAddress) compare(b exeAddress) int {
	return cmp.Or(cmp.Compare(a.vaddr, b.vaddr), cmp.Compare(a.order(), b.order()))
}

func (a exeAddress) order() int {
	if a.returned {
		return 0 // of the call before it
	}
	return 1
}

func exeAddressOf(f kernel.Frame) exeAddress {
	return exeAddress{f.Exe, f.Vaddr, f.Flags&kernel.ReturnAddress != 0}
}

// named is the work that names addresses of an executable, in their order: what one is
// named by lies next to what its neighbours are, and so is read once.
func (n *namer) named(o *symbol.Object, addresses []exeAddress) *work {
	found := make([][]symbol.Frame, len(addresses))
	return &work{
		job:    job{exe: unwind.ExeID(o.ID)},
		what:   "reading the names of " + o.Path,
		origin: originOf(o),
		read: func() {
			for i, a := range addresses {
				found[i] = n.names.symbolizer.Frames(o, a.vaddr, a.returned)
			}
		},
		use: func() {
			for i, a := range addresses {
				n.frames[a] = found[i]
			}
		},
	}
}

// compiledNames is the work that reads what a process's just-in-time compiler has
// written since, of addresses above all.
func (n *namer) compiledNames(pid uint32, addresses []uint64) *work {
	return &work{
		job:    job{pid: pid},
		what:   fmt.Sprintf("reading the JIT names of process %d", pid),
		origin: n.names.jit.Origin(pid),
		read:   func() { n.names.jit.Read(pid, addresses) },
		use:    func() {},
	}
}

// originOf is where the file of an executable comes from: files of one folder hang
// together, if they do.
func originOf(o *symbol.Object) filework.Origin {
	if o.Source != nil {
		o = o.Source
	}
	return filework.Origin{Mount: fmt.Sprintf("%s of user %d", path.Dir(o.Path), o.Owner), Owner: o.Owner}
}

// ownerOf returns the user ID of the process whose root that is, 0 if it is gone.
func ownerOf(root string) uint32 {
	var stat unix.Stat_t
	if root == "" || unix.Stat(path.Dir(path.Clean(root)), &stat) != nil { // of /proc/PID
		return 0
	}
	return stat.Uid
}
