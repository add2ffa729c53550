package kernel

import (
	"errors"
	"testing"
	"unsafe"
)

// TestDrain puts samples into a log as BPF does, over its end and back, and reads
// them.
func TestDrain(t *testing.T) {
	log := &profilerLog{}
	put := func(pid uint32, frames uint16, stack uint32) {
		at := log.Head
		s := (*profilerSample)(unsafe.Pointer(&log.Words[at]))
		size := sampleHead/8 + 2*int(frames) + int(stack)/8
		*s = profilerSample{Pid: pid, UserFrames: frames, StackBytes: stack, Size: uint16(size)}
		if log.Head = at + uint64(size); log.Head >= logWords {
			log.Head = 0
		}
	}
	r := newSampleReader(nil, &logs{byCPU: []*profilerLog{log}})
	var got, want uint32
	for range 40 { // some three times through the log
		for n := range uint32(5) {
			want++
			put(want, uint16(100*n), 4096*n)
		}
		err := r.drain(func(s *Sample) {
			if got++; s.PID != got || len(s.User) != 100*((int(got)-1)%5) || s.Stack.Len() != 4096*((int(got)-1)%5) {
				t.Errorf("sample %d is of process %d, with %d frames and %d bytes of stack", got, s.PID, len(s.User), s.Stack.Len())
			}
		})
		if err != nil || got != want || log.Tail != log.Head {
			t.Fatalf("read %d of %d samples: %v; head %d, tail %d", got, want, err, log.Head, log.Tail)
		}
	}
}

// TestDrainDamaged: whatever a log holds, reading it ends.
func TestDrainDamaged(t *testing.T) {
	for name, damage := range map[string]func(*profilerLog){
		"head": func(l *profilerLog) { l.Head = logWords },
		"tail": func(l *profilerLog) { l.Tail = logWords },
		"end": func(l *profilerLog) {
			l.Head = uint64(sampleHead)/8 + 1
			(*profilerSample)(unsafe.Pointer(&l.Words[0])).Size = uint16(sampleHead / 8)
		},
		"size": func(l *profilerLog) {
			l.Head = 100
			(*profilerSample)(unsafe.Pointer(&l.Words[0])).Size = 1 << 15
		},
	} {
		log := &profilerLog{}
		damage(log)
		if err := drain(log, func([]byte) error { return nil }); !errors.Is(err, errLog) {
			t.Errorf("%s: %v, want %v", name, err, errLog)
		}
	}
}
