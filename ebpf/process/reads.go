package process

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/procfs"
)

// Bounds of reading code objects: a process may have ever new ones, or seem to. What has not been read is read later,
// if it is met again. Each read counts, and once more for each 4 KiB.
const (
	MaxReadsAtOnce    = 1 << 16 // of a process, ...
	ReadsPerSecond    = 1 << 11 // ... in the long run
	MaxAllReadsAtOnce = 1 << 19 // of all processes, ...
	AllReadsPerSecond = 1 << 15 // ... in the long run
	bytesOfRead       = 4 << 10
	fewReads          = 64 // nothing is begun with less: a function of Python takes some 20, with a long table 36
)

var errReads = errors.New("too many reads of functions")

// reads bounds the reads of code objects. Safe for concurrent use.
type reads struct {
	all *rate.Limiter

	mu sync.Mutex
	of map[uint32]*ownReads // by PID
}

// ownReads are those of a process.
type ownReads struct {
	*rate.Limiter
	refused atomic.Uint64
}

func newReads() *reads {
	return &reads{all: rate.NewLimiter(AllReadsPerSecond, MaxAllReadsAtOnce), of: map[uint32]*ownReads{}}
}

// memory returns the memory of a process, whose reads fail beyond the bounds.
func (r *reads) memory(pid uint32) boundedMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[pid]
	if own == nil {
		own = &ownReads{Limiter: rate.NewLimiter(ReadsPerSecond, MaxReadsAtOnce)}
		r.of[pid] = own
	}
	return boundedMemory{procfs.Memory{PID: pid}, own, r.all}
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

// few reports whether too few reads are left to begin anything.
func (m boundedMemory) few() bool { return m.own.Tokens() < fewReads || m.all.Tokens() < fewReads }

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
func (m boundedMemory) ReadEach(addrs []uint64, size int, b []byte) int {
	if !m.allow(len(addrs) * size) {
		return 0
	}
	return m.Memory.ReadEach(addrs, size, b)
}
