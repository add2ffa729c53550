package engine

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/language"
)

// unloads counts how often code objects were removed from a process. Safe for concurrent use.
type unloads struct {
	mu      sync.Mutex
	counter uint64    // address of the counter; 0 while unknown
	none    bool      // the process has no counter
	count   uint64    // value of the counter at the last read
	since   time.Time // when it first had that value; zero if from the start
}

// areCounted reports whether the process may have a counter.
func (u *unloads) areCounted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.none
}

// readCount reads the counter, and reports whether it had the same value at an earlier time.
func (u *unloads) readCount(frames language.FrameReader, m language.Memory, bias uint64, when time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.none {
		return false
	}
	if u.counter == 0 {
		var err error
		if u.counter, err = frames.Unloads(m, bias); err != nil {
			u.counter, u.none = 0, errors.Is(err, language.ErrUnknown)
			return false
		}
	}
	var b [8]byte
	if _, err := m.ReadAt(b[:], int64(u.counter)); err != nil {
		return false
	}
	if count := binary.NativeEndian.Uint64(b[:]); count != u.count {
		u.count, u.since = count, time.Now() // the value before this read is unknown
	}
	return u.since.Before(when)
}
