package kernel

import (
	"errors"
	"testing"
	"unsafe"
)

// TestDrain puts samples into a ring as BPF does, over its end and back, and reads
// them.
func TestDrain(t *testing.T) {
	ring := &profilerSampleRing{}
	put := func(pid uint32, frames uint16, stack uint32) {
		at := ring.Head
		s := (*profilerSample)(unsafe.Pointer(&ring.Words[at]))
		size := sampleHead/8 + 2*int(frames) + int(stack)/8
		*s = profilerSample{Pid: pid, UserFrames: frames, StackBytes: stack, Size: uint16(size)}
		if ring.Head = at + uint64(size); ring.Head >= ringWords {
			ring.Head = 0
		}
	}
	r := newSampleReader(nil, &sampleRings{byCPU: []*profilerSampleRing{ring}})
	var got, want uint32
	for range 40 { // some three times through the ring
		for n := range uint32(5) {
			want++
			put(want, uint16(100*n), 4096*n)
		}
		err := r.drain(func(s *Sample) {
			if got++; s.PID != got || len(s.User) != 100*((int(got)-1)%5) || s.Stack.Len() != 4096*((int(got)-1)%5) {
				t.Errorf("sample %d is of process %d, with %d frames and %d bytes of stack", got, s.PID, len(s.User),
					s.Stack.Len())
			}
		})
		if err != nil || got != want || ring.Tail != ring.Head {
			t.Fatalf("read %d of %d samples: %v; head %d, tail %d", got, want, err, ring.Head, ring.Tail)
		}
	}
}

// TestDrainDamaged: reading ends, whatever a ring holds.
func TestDrainDamaged(t *testing.T) {
	for name, damage := range map[string]func(*profilerSampleRing){
		"head": func(r *profilerSampleRing) { r.Head = ringWords },
		"tail": func(r *profilerSampleRing) { r.Tail = ringWords },
		"end": func(r *profilerSampleRing) {
			r.Head = uint64(sampleHead)/8 + 1
			(*profilerSample)(unsafe.Pointer(&r.Words[0])).Size = uint16(sampleHead / 8)
		},
		"size": func(r *profilerSampleRing) {
			r.Head = 100
			(*profilerSample)(unsafe.Pointer(&r.Words[0])).Size = 1 << 15
		},
	} {
		ring := &profilerSampleRing{}
		damage(ring)
		if err := drain(ring, func([]byte) error { return nil }); !errors.Is(err, errRing) {
			t.Errorf("%s: %v, want %v", name, err, errRing)
		}
	}
}
