package tablestore

import (
	"math/rand/v2"
	"testing"
	"time"
)

// bareSlabs returns table memory without BPF maps.
func bareSlabs(n int) *slabs {
	s := &slabs{}
	for i := range n {
		s.data = append(s.data, &slab{words: make([]uint64, SlabWords)})
		s.free = append(s.free, []run{{start: uint32(i * SlabWords), words: uint32(SlabWords)}})
	}
	return s
}

// forget ends the quarantine of released runs.
func (s *slabs) forget() { s.reclaim(time.Now().Add(2 * quarantine)) }

func TestRunsNeverOverlap(t *testing.T) {
	s := bareSlabs(3)
	random := rand.New(rand.NewPCG(1, 2))
	owner := make([]int, 3*SlabWords)
	live := map[int]run{}
	for id := 1; id < 3000; id++ {
		if random.IntN(3) == 0 {
			for old, r := range live {
				for w := r.start; w < r.start+r.words; w++ {
					owner[w] = 0
				}
				s.release(r)
				delete(live, old)
				break
			}
			s.forget()
			continue
		}
		r, ok := s.takeRun(uint32(runAlign * (1 + random.IntN(400))))
		if !ok {
			continue
		}
		if first, last := r.start/uint32(SlabWords), (r.start+r.words-1)/uint32(SlabWords); first != last {
			t.Fatalf("run %+v crosses from slab %d to %d", r, first, last)
		}
		for w := r.start; w < r.start+r.words; w++ {
			if owner[w] != 0 {
				t.Fatalf("word %d belongs to run %d and to run %d", w, owner[w], id)
			}
			owner[w] = id
		}
		live[id] = r
	}
	for _, r := range live {
		s.release(r)
	}
	s.forget()
	for n, free := range s.free {
		if len(free) != 1 || int(free[0].words) != SlabWords {
			t.Errorf("slab %d has free runs %+v when all is free, want one", n, free)
		}
	}
	if s.used != 0 {
		t.Errorf("%d words in use when all is free", s.used)
	}
}

func TestQuarantine(t *testing.T) {
	s := bareSlabs(1)
	r, _ := s.takeRun(uint32(SlabWords))
	s.release(r)
	s.reclaim(time.Now())
	if _, ok := s.takeRun(runAlign); ok {
		t.Error("a run was handed out at once after its release: a sample may still be reading it")
	}
	s.forget()
	if _, ok := s.takeRun(runAlign); !ok {
		t.Error("a released run was not handed out after its quarantine")
	}
}
