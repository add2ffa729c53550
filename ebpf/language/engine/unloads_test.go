package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/language"
)

// countingMemory has a counter at address 8, and reports it as a runtime does.
type countingMemory struct {
	language.Memory
	language.FrameReader
	count uint64
	err   error // of Unloads
	asked int
}

func (m *countingMemory) Unloads(language.Memory, uint64) (uint64, error) {
	m.asked++
	return 8, m.err
}

func (m *countingMemory) ReadAt(b []byte, addr int64) (int, error) {
	if addr != 8 {
		return 0, errors.New("bad address")
	}
	binary.NativeEndian.PutUint64(b, m.count)
	return len(b), nil
}

// TestUnloads: no code was removed since a time if the counter was 0 all the time, or had the same value at an earlier
// read.
func TestUnloads(t *testing.T) {
	m, u := &countingMemory{}, unloads{}
	read := func(when time.Time, want bool) {
		t.Helper()
		if got := u.readCount(m, m, 0, when); got != want {
			t.Errorf("count %d: %v", m.count, got)
		}
	}
	m.err = fmt.Errorf("too early: %w", language.ErrNotReady)
	read(time.Now(), false)
	m.err = nil
	read(time.Now(), true)
	sampled := time.Now()
	m.count = 3
	read(sampled, false)
	read(sampled, false)
	read(time.Now(), true)
	m.count = 4
	read(time.Now(), false)
	if m.asked != 2 {
		t.Errorf("asked %d times where the counter is", m.asked)
	}
	u = unloads{}
	m.err = language.ErrUnknown
	read(time.Now(), false)
	read(time.Now(), false)
	if m.asked != 3 {
		t.Errorf("asked %d times, though there is none", m.asked-2)
	}
}
