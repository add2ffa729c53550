package process

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/runtime"
)

// Bounds of reading code objects: a process may have ever new ones, or seem to. What has not been read is read later,
// if it is met again. Each read counts, and once more for each KiB: line tables are not only copied, but decoded.
const (
	MaxReadsAtOnce    = 1 << 16 // of a process, ...
	ReadsPerSecond    = 1 << 11 // ... in the long run
	MaxAllReadsAtOnce = 1 << 19 // of all processes, ...
	AllReadsPerSecond = 1 << 15 // ... in the long run
	bytesOfRead       = 1 << 10
	checksPerSecond   = 1 << 13 // reads that only find out whether machine code is still there; as many at once
	fewReads          = 96      // nothing is begun with less: a function of Python takes some 20, with a long table 84
	senselessReads    = 16      // that what is not a code object counts in addition
)

// A process that has always used up its reads has ever fewer: functions that were new at its start, or after a change,
// are known soon, and what others write over and over again is not worth the time.
const (
	LeastReadsPerSecond = 1 << 5
	slowdownAfter       = 10 * time.Second // they are halved when it had too few for that long, ...
	speedupAfter        = time.Minute      // ... and doubled when it had enough for that long
	restOfGreedy        = time.Minute      // when they are fewest and still too few, its functions are not even looked up
)

var errReads = errors.New("too many reads of functions")

// reads bounds the reads of code objects. Safe for concurrent use.
type reads struct {
	fs  procfs.FS
	all *rate.Limiter

	mu sync.Mutex
	of map[uint32]*ownReads // by PID
}

// ownReads are those of a process.
type ownReads struct {
	*rate.Limiter
	refused atomic.Uint64
	checks  *ownReads // see checksPerSecond; nil: these are

	mu      sync.Mutex
	few     time.Time // when they were too few last
	changed time.Time // when the reads a second were changed, or they began to be too few
	rests   time.Time // until when nothing is looked up

	turn turn // to be read
}

// A process whose memory took longer to read than it was waited for has the next turn when that is done and as long
// again has passed, longer if it is late again: so it is read by one thread at a time, of those that its user may keep
// busy, and leaves time to others of that user.
const (
	LateReadShare = 4                // times what it took: it rests no longer
	lateMemory    = 30 * time.Second // after which it is forgotten that it was late
)

var errLate = errors.New("reading functions took too long a moment ago")

// turn is one process's to be read. Safe for concurrent use.
type turn struct {
	mu    sync.Mutex
	busy  bool
	rest  time.Duration // the last one
	until time.Time     // when it ends
}

// take reports whether the process may be read now. If so, give is called when that is done.
func (t *turn) take(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || now.Before(t.until) {
		return false
	}
	t.busy = true
	return true
}

// give notes how long the process was read, and was to be read at most.
func (t *turn) give(took, patience time.Duration, now time.Time) {
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

// tooFew reports whether too few are left to begin anything, and lets them become fewer while that is so.
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

// rest reports whether functions of a process are not looked up now, as it has wanted too many for minutes.
func (r *reads) rest(pid uint32, now time.Time) bool {
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

// memory returns the memory of a process, whose reads fail beyond the bounds.
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

// trim forgets processes that have all their reads again.
func (r *reads) trim(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, own := range r.of {
		if own.TokensAt(now) >= MaxReadsAtOnce {
			delete(r.of, pid)
		}
	}
}

// boundedMemory implements runtime.Memory. That of a process is always equal.
type boundedMemory struct {
	procfs.Memory
	own *ownReads
	all *rate.Limiter
}

// forChecks returns the same memory for the reads that find out whether machine code is still there.
func (m boundedMemory) forChecks() boundedMemory { return boundedMemory{m.Memory, m.own.checks, m.all} }

// few reports whether too few reads are left to begin anything.
func (m boundedMemory) few() bool {
	now := time.Now()
	return m.own.tooFew(now) || m.all.TokensAt(now) < fewReads
}

// refused counts the reads that were refused, those for checks too.
func (m boundedMemory) refused() uint64 { return m.own.refused.Load() + m.own.checks.refused.Load() }

// tooMany is the error of work that was not done because too few reads are left.
func (m boundedMemory) tooMany() error {
	return limit.Hit(limit.Functions, fmt.Errorf("process %d: %w", m.PID, errReads))
}

// tooLate is the error of work that was not done because the process was late before.
func (m boundedMemory) tooLate() error {
	return limit.Hit(limit.Functions, fmt.Errorf("process %d: %w", m.PID, errLate))
}

// senseless notes that what was read is no code object.
func (m boundedMemory) senseless() {
	now := time.Now()
	m.own.AllowN(now, min(senselessReads, int(m.own.TokensAt(now))))
}

// allow takes the reads of some bytes.
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

// ReadEach implements runtime.Memory.
func (m boundedMemory) ReadEach(addrs []uint64, size int, b []byte) (int, error) {
	if !m.allow(len(addrs) * size) {
		return 0, runtime.ErrBusy
	}
	return m.Memory.ReadEach(addrs, size, b)
}
