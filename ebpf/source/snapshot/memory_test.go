package snapshot

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
)

// region is memory from an address on.
type region struct {
	base  uint64
	bytes []byte
	reads int
}

func (r *region) ReadAt(b []byte, addr int64) (int, error) {
	r.reads++
	at := uint64(addr) - r.base
	if uint64(addr) < r.base || at >= uint64(len(r.bytes)) {
		return 0, io.ErrUnexpectedEOF
	}
	if n := copy(b, r.bytes[at:]); n < len(b) {
		return n, io.ErrUnexpectedEOF
	}
	return len(b), nil
}

func (r *region) ReadEach([]uint64, int, []byte) (int, error) { panic("not used") }

func TestMemoryReadsEachPageOnce(t *testing.T) {
	r := &region{base: 0x10000, bytes: make([]byte, 6*pageBytes)}
	for at := 0; at < len(r.bytes); at += 8 {
		binary.LittleEndian.PutUint64(r.bytes[at:], uint64(at))
	}
	m := newMemory(r, &kernel.Thread{})
	for at := uint64(0); at < 6*pageBytes; at += 8 {
		if v, ok := m.ReadU64(r.base + at); !ok || v != at {
			t.Fatalf("at 0x%x: 0x%x, %v", at, v, ok)
		}
	}
	if r.reads != 2 {
		t.Errorf("six pages took %d reads", r.reads)
	}
	across := binary.LittleEndian.Uint64(r.bytes[pageBytes-4:])
	if v, ok := m.ReadU64(r.base + pageBytes - 4); !ok || v != across {
		t.Errorf("across two pages: 0x%x, %v, want 0x%x", v, ok, across)
	}
	end := r.base + 6*pageBytes
	for _, addr := range []uint64{0, r.base - 8, r.base - 4, end, end - 4, ^uint64(0) - 3} {
		if _, ok := m.ReadU64(addr); ok {
			t.Errorf("0x%x can be read", addr)
		}
	}
}

func TestEndsAt(t *testing.T) {
	const start, pointer = 0x7fff_0000_0000, 0x7f00_0000_2000
	r := &region{base: pointer, bytes: make([]byte, pageBytes)}
	binary.LittleEndian.PutUint64(r.bytes, pointer)
	m := newMemory(r, &kernel.Thread{StartStack: start, ThreadPointer: pointer})
	for addr, want := range map[uint64]bool{
		start: true, start - 64: true, start - 4096: false, start + 64: false,
		pointer - 64: true, pointer - 4096: true, pointer - 4104: false, pointer + 8: false, 0: false, 4096: false,
	} {
		if got := m.EndsAt(addr); got != want {
			t.Errorf("0x%x: %v, want %v", addr, got, want)
		}
	}
}
