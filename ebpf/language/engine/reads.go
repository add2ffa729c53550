package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
)

// Bounds of reads of code objects: a process may keep creating code objects, or seem to. Code objects that are not read
// now are read later, when they are seen again. Each read counts once, and once more for each KiB, because line tables
// are not only copied but also decoded.
const (
	MaxReadsAtOnce    = 1 << 16 // burst of a process
	ReadsPerSecond    = 1 << 11 // rate of a process
	MaxAllReadsAtOnce = 1 << 19 // burst of all processes
	AllReadsPerSecond = 1 << 15 // rate of all processes
	bytesOfRead       = 1 << 10
	checksPerSecond   = 1 << 13 // rate and burst of reads that only check whether machine code is still there
	fewReads          = 96      // no work starts with fewer: a function of Python takes some 20, with a long table 84
	senselessReads    = 16      // additional cost of memory that is not a code object
)

// A process that keeps exhausting its reads gets half as many each time. Functions that were new at its start, or after
// a change, are known soon. A process that keeps creating functions is not worth more time.
const (
	LeastReadsPerSecond = 1 << 5
	slowdownAfter       = 10 * time.Second // reads are halved when they were too few for that long, ...
	speedupAfter        = time.Minute      // ... and doubled when they were enough for that long
	restOfGreedy        = time.Minute      // when the fewest reads are too few, lookups are suspended for that long
)

var errReads = errors.New("too many reads of functions")

// reads bounds the reads of code objects. Safe for concurrent use.
type reads struct {
	fs  procfs.FS
	all *rate.Limiter

	mu sync.Mutex
	of map[uint32]*ownReads // by PID
}

// ownReads bounds the reads of a process.
type ownReads struct {
	*rate.Limiter
	refused atomic.Uint64
	checks  *ownReads // budget for checks, see checksPerSecond; nil in that budget

	mu      sync.Mutex
	few     time.Time // when too few reads were left last
	changed time.Time // when the limit was changed, or too few reads were left for too long
	rests   time.Time // lookups are suspended until then

	turn turn // for reads of the process
}

// A process whose memory took longer to read than the reader waited gets its next turn after the read has ended and the
// same time again has passed, or longer if it is late again. So only one thread at a time reads the process, among the
// threads that its user may keep busy, and other processes of that user also get time.
const (
	LateReadShare = 4                // bound of the rest, in multiples of the time of the read
	lateMemory    = 30 * time.Second // after which a late read is forgotten
)

var errLate = errors.New("reading functions took too long a moment ago")

// turn decides when one process may be read. Safe for concurrent use.
type turn struct {
	mu    sync.Mutex
	busy  bool
	rest  time.Duration // length of the last rest
	until time.Time     // end of the last rest
}

// takeTurn reports whether the process may be read now. If so, the caller must call give after the read.
func (t *turn) takeTurn(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || now.Before(t.until) {
		return false
	}
	t.busy = true
	return true
}

// giveTurn ends a turn. took is how long the read took, and patience is how long the reader waited at most.
func (t *turn) giveTurn(took, patience time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	if took <= patience {
		return
	}
	if now.Sub(t.until) >= lateMemory {
		t.rest = 0
	}
	t.rest = min(max(took, 2*t.rest), LateReadShare*took)
	t.until = now.Add(t.rest)
}

func newReads(fs procfs.FS) *reads {
	return &reads{fs: fs, all: rate.NewLimiter(AllReadsPerSecond, MaxAllReadsAtOnce), of: map[uint32]*ownReads{}}
}

// tooFew reports whether too few reads are left to start any work. It lowers the limit while that is so, and raises it
// again later.
func (r *ownReads) tooFew(now time.Time) bool {
	few := r.TokensAt(now) < fewReads
	r.mu.Lock()
	defer r.mu.Unlock()
	calm := func() bool { return now.Sub(r.few) >= speedupAfter && now.Sub(r.changed) >= speedupAfter }
	for r.Limit() < ReadsPerSecond && calm() {
		r.SetLimitAt(now, 2*r.Limit())
		r.changed = r.changed.Add(speedupAfter)
	}
	switch changed := now.Sub(r.changed); {
	case few && now.Sub(r.few) >= slowdownAfter:
		r.changed = now
	case few && changed >= slowdownAfter && r.Limit() > LeastReadsPerSecond:
		r.SetLimitAt(now, r.Limit()/2)
		r.changed = now
	}
	if few {
		r.few = now
		if r.Limit() <= LeastReadsPerSecond && now.After(r.rests) {
			r.rests = now.Add(restOfGreedy)
		}
	}
	return few
}

// mustRest reports whether lookups of a process's functions are suspended, because it has needed too many reads for
// minutes.
func (r *reads) mustRest(pid uint32, now time.Time) bool {
	r.mu.Lock()
	own := r.of[pid]
	r.mu.Unlock()
	if own == nil {
		return false
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	return now.Before(own.rests)
}

// memory returns the memory of a process. Its reads fail beyond the bounds.
func (r *reads) memory(pid uint32) boundedMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[pid]
	if own == nil {
		own = &ownReads{
			Limiter: rate.NewLimiter(ReadsPerSecond, MaxReadsAtOnce),
			checks:  &ownReads{Limiter: rate.NewLimiter(checksPerSecond, checksPerSecond)},
		}
		r.of[pid] = own
	}
	return boundedMemory{r.fs.Memory(pid), own, r.all}
}

// trimEnded forgets processes whose budget is full again.
func (r *reads) trimEnded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, own := range r.of {
		if own.TokensAt(now) >= MaxReadsAtOnce {
			delete(r.of, pid)
		}
	}
}

// boundedMemory implements language.Memory. All values for one process are equal.
type boundedMemory struct {
	procfs.Memory
	own *ownReads
	all *rate.Limiter
}

// forChecks returns the same memory with the budget for checks of machine code.
func (m boundedMemory) forChecks() boundedMemory { return boundedMemory{m.Memory, m.own.checks, m.all} }

// hasFewReads reports whether too few reads are left to start any work.
func (m boundedMemory) hasFewReads() bool {
	now := time.Now()
	return m.own.tooFew(now) || m.all.TokensAt(now) < fewReads
}

// refused returns how many reads were refused, including checks.
func (m boundedMemory) refused() uint64 { return m.own.refused.Load() + m.own.checks.refused.Load() }

// tooMany returns the error of work that was not done because too few reads are left.
func (m boundedMemory) tooMany() error {
	return limit.Hit(limit.Functions, fmt.Errorf("process %d: %w", m.PID, errReads))
}

// tooLate returns the error of work that was not done because the process was late before.
func (m boundedMemory) tooLate() error {
	return limit.Hit(limit.Functions, fmt.Errorf("process %d: %w", m.PID, errLate))
}

// senseless notes that the memory that was read is not a code object.
func (m boundedMemory) senseless() {
	now := time.Now()
	m.own.AllowN(now, min(senselessReads, int(m.own.TokensAt(now))))
}

// allow takes the reads of some bytes from the budgets, and reports whether they were left.
func (m boundedMemory) allow(bytes int) bool {
	n, now := 1+bytes/bytesOfRead, time.Now()
	if m.own.AllowN(now, n) && m.all.AllowN(now, n) {
		return true
	}
	m.own.refused.Add(1)
	return false
}

// ReadAt implements io.ReaderAt.
func (m boundedMemory) ReadAt(b []byte, addr int64) (int, error) {
	if !m.allow(len(b)) {
		return 0, errReads
	}
	return m.Memory.ReadAt(b, addr)
}

// ReadEach implements language.Memory.
func (m boundedMemory) ReadEach(addrs []uint64, size int, b []byte) (int, error) {
	if !m.allow(len(addrs) * size) {
		return 0, language.ErrBusy
	}
	return m.Memory.ReadEach(addrs, size, b)
}

// readWithin runs work that reads the memory of a process. work returns false if it has used up the reads. readWithin
// reports whether work is done; if not, it may still be running.
func (e *Engine) readWithin(memory boundedMemory, kind string, work func() bool) bool {
	turn, began := &memory.own.turn, time.Now()
	if !turn.takeTurn(began) {
		e.Failed(memory.tooLate())
		return false
	}
	what := fmt.Sprintf("reading %s of process %d", kind, memory.PID)
	_, err := filework.Get(e.Work, filework.OfMemory(e.FS, memory.PID), what, e.patience, func() (struct{}, error) {
		enough := work()
		now := time.Now()
		turn.giveTurn(now.Sub(began), e.patience, now)
		if !enough {
			return struct{}{}, memory.tooMany()
		}
		return struct{}{}, nil
	}, nil)
	if filework.Refused(err) {
		turn.giveTurn(0, e.patience, began)
	}
	e.Failed(err)
	return err == nil
}
