package sampler

import (
	"errors"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// TestQueue: samples come in order and unchanged, rounds without samples are merged, and the last end is returned again
// and again.
func TestQueue(t *testing.T) {
	q := newQueue()
	s := kernel.Sample{PID: 1, User: []kernel.Frame{{Vaddr: 7}}}
	q.putSample(&s)
	s.PID, s.User[0].Vaddr = 2, 8
	q.putSample(&s)
	q.close(end{upTo: 10})
	q.close(end{upTo: 20, flushed: true})
	q.close(end{upTo: 30})
	failed := errors.New("failed")
	q.close(end{upTo: 40, last: true, err: failed})

	first, second := q.takeItem().sample, q.takeItem().sample
	if first.PID != 1 || first.User[0].Vaddr != 7 || second.PID != 2 || second.User[0].Vaddr != 8 {
		t.Errorf("samples are %+v and %+v", first, second)
	}
	q.reuse(first)
	for range 2 { // the rounds of 10 to 30 were joined with the last
		if e := q.takeItem().end; e.upTo != 40 || !e.flushed || e.err != failed {
			t.Errorf("the end is %+v", e)
		}
	}
}

// TestQueueFull: put waits for room until a sample is taken, or no more will be taken.
func TestQueueFull(t *testing.T) {
	q := newQueue()
	done := make(chan bool)
	go func() {
		for range queueSamples + 1 {
			q.putSample(&kernel.Sample{})
		}
		done <- true
		for range 2 {
			q.putSample(&kernel.Sample{})
		}
		done <- true
	}()
	select {
	case <-done:
		t.Fatal("nobody waits")
	case <-time.After(10 * time.Millisecond):
	}
	q.takeItem()
	<-done
	q.endRound()
	<-done
}
