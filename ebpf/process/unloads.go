package process

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
)

// unloads is how often code objects have gone from a process. Safe for concurrent use.
type unloads struct {
	mu      sync.Mutex
	counter uint64    // its address, 0: not known yet
	none    bool      // there is none
	count   uint64    // when it was read last
	since   time.Time // when it was that at first; zero: from the beginning on
}

// read reads the counter, and reports whether it was the same at an earlier time.
func (u *unloads) read(runs runtime.Unloading, m runtime.Memory, bias uint64, when time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.none {
		return false
	}
	if u.counter == 0 {
		var err error
		if u.counter, err = runs.Unloads(m, bias); err != nil {
			u.counter, u.none = 0, errors.Is(err, runtime.ErrUnknown)
			return false
		}
	}
	var b [8]byte
	if _, err := m.ReadAt(b[:], int64(u.counter)); err != nil {
		return false
	}
	if count := binary.NativeEndian.Uint64(b[:]); count != u.count {
		u.count, u.since = count, time.Now() // of the time before this read nothing is known
	}
	return u.since.Before(when)
}

// Kept reports whether all code objects that were read of the process until now, with the interpreter of a sample, were
// there at an earlier time, too: none has gone since.
func (i *Interpretation) Kept(t *Tracker, by *Interpreter, when time.Time) bool {
	runs, ok := by.runs.(runtime.Unloading)
	if !ok {
		return false
	}
	memory := t.exes.interpreters.reads.memory(i.pid)
	kept := false
	done := t.readWithin(memory, "unloaded code", func() bool {
		kept = i.unloads.read(runs, memory, i.bias, when)
		return true
	})
	return done && kept
}
