package process

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

// readCount reads the counter, and reports whether it had the same value at an earlier time.
func (u *unloads) readCount(runs language.Unloading, m language.Memory, bias uint64, when time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.none {
		return false
	}
	if u.counter == 0 {
		var err error
		if u.counter, err = runs.Unloads(m, bias); err != nil {
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

// Kept reports whether all code objects that were read from the process so far, with the interpreter of a sample,
// already existed at an earlier time: none has been removed since.
func (i *Interpretation) Kept(t *Tracker, by *Interpreter, when time.Time) bool {
	runs, ok := by.runs.(language.Unloading)
	if !ok {
		return false
	}
	memory := t.exes.interpreters.reads.memory(i.pid)
	kept := false
	done := t.readWithin(memory, "unloaded code", func() bool {
		kept = i.unloads.readCount(runs, memory, i.bias, when)
		return true
	})
	return done && kept
}
