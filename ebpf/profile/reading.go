package profile

import (
	"cmp"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Workers read names, each for one executable or one process with a JIT compiler. A round waits for half of the time
// since the end of the previous round, within bounds; names that are not read by then are in the next round. A user may
// have files whose names are never ready: a round that waited long must not make the next round wait longer, and rounds
// that are due every two seconds must still come on time.
const (
	minPatience  = time.Second
	maxPatience  = 5 * time.Second
	lastPatience = 2 * time.Second // after hurry
	// firstTurn is the maximum wait for one job before the next one is started.
	firstTurn = 250 * time.Millisecond
	// nextTurn is the maximum wait for each job once all jobs have had their first turn.
	nextTurn = 10 * time.Millisecond
)

// patienceAfter returns how long a round waits for names.
func patienceAfter(passed time.Duration) time.Duration {
	return min(max(passed/2, minPatience), maxPatience)
}

// readers track the jobs of earlier rounds that still run. Safe for concurrent use.
type readers struct {
	files *filework.Pool
	ends  atomic.Pointer[time.Time] // time of the first hurry, nil if none

	mu   sync.Mutex
	busy map[job]*filework.Task
	late map[unwind.ExeID]error // by executable, why its names were not ready in the last round
}

func newReaders(files *filework.Pool) *readers {
	return &readers{files: files, busy: map[job]*filework.Task{}, late: map[unwind.ExeID]error{}}
}

// job identifies a unit of reading: the names of an executable, or the names written by a process's JIT compiler.
type job struct {
	exe unwind.ExeID // 0 for JIT names
	pid uint32
}

// work is a job with its functions and state.
type work struct {
	job
	what   string
	origin filework.Origin
	read   func() // reads the names of the job's addresses
	use    func() // called after read, by the goroutine that waits for it

	task *filework.Task
	err  error // the reason why it is not done
}

// hurry limits the wait of the current round to lastPatience from now on, and the wait of each later round to
// lastPatience.
func (r *readers) hurry() {
	now := time.Now()
	r.ends.CompareAndSwap(nil, &now)
}

// timeLeft returns how long a round that started at began may still wait.
func (r *readers) timeLeft(began time.Time, patience time.Duration) time.Duration {
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

// runWork does as much of the work as it can within the given time. It returns the rest.
func (r *readers) runWork(all []*work, patience time.Duration) (rest []*work) {
	began := time.Now()
	turn := firstTurn
	for {
		var again []*work
		for _, w := range all {
			switch r.stepWork(w, min(turn, r.timeLeft(began, patience))) {
			case done:
				w.use()
			case hopeless:
				rest = append(rest, w)
			case later:
				again = append(again, w)
			}
		}
		if len(again) == 0 || r.timeLeft(began, patience) == 0 {
			return append(rest, again...)
		}
		all, turn = again, nextTurn
	}
}

// progress is the state of a piece of work.
type progress int

const (
	done progress = iota
	later
	hopeless // not in this round
)

// stepWork starts a piece of work, if it is allowed to, and waits for it.
func (r *readers) stepWork(w *work, patience time.Duration) progress {
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

// start starts a piece of work, unless the same job of an earlier round still runs.
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

// ended removes the finished jobs, and records why the jobs of rest are not finished.
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

// whyUnnamed returns the reason why names of an executable were not ready in the last round, or nil if they were ready.
func (r *readers) whyUnnamed(exe unwind.ExeID) error {
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
		return 0 // it is looked up at the preceding call
	}
	return 1
}

func exeAddressOf(f kernel.Frame) exeAddress {
	return exeAddress{f.Exe, f.Vaddr, f.Flags&kernel.ReturnAddress != 0}
}

// named returns the work to name addresses of an executable. They are named in ascending order, so that data shared by
// neighbouring addresses is read once.
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

// compiledNames returns the work to read the new names written by a process's just-in-time compiler. The given
// addresses have priority.
func (n *namer) compiledNames(pid uint32, addresses []uint64) *work {
	return &work{
		job:    job{pid: pid},
		what:   fmt.Sprintf("reading the JIT names of process %d", pid),
		origin: n.names.jit.Origin(pid),
		read:   func() { n.names.jit.Read(pid, addresses) },
		use:    func() {},
	}
}

// originOf returns the origin of the file of an executable. Files of one folder share an origin: if one hangs, all
// hang.
func originOf(o *symbol.Object) filework.Origin {
	if o.Source != nil {
		o = o.Source
	}
	return filework.Origin{Mount: fmt.Sprintf("%s of user %d", path.Dir(o.Path), o.Owner), Owner: o.Owner}
}

// ownerOf returns the user ID of the process with the given root, or 0 if the process is gone.
func ownerOf(root string) uint32 {
	var stat unix.Stat_t
	if root == "" || unix.Stat(path.Dir(path.Clean(root)), &stat) != nil { // the owner of /proc/PID
		return 0
	}
	return stat.Uid
}
