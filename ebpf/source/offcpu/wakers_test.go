package offcpu

import (
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// woken records the waker that ends the present wait of a thread.
func (h *host) woken(tid uint32, switches uint64, by string) {
	h.wakers = append(h.wakers, kernel.Waker{TID: tid, Switches: switches, ByComm: by})
}

// TestWakers: a waker is in the sample of the wait that it ended, and in no other, whether the thread has run since, is
// queued, waits again or has ended; time in the run queue has no waker.
func TestWakers(t *testing.T) {
	h := &host{}
	for tid := range uint32(5) {
		h.set(tid+1, kernel.Sleeping, 1)
	}
	c := newClock(h)
	if err := c.SetWakers(true); err != nil || !h.watched {
		t.Fatal(err)
	}
	h.pass(t, c, 10)
	h.pass(t, c, 10)

	h.woken(1, 1, "first") // and runs
	h.set(1, kernel.Running, 1)
	h.woken(2, 1, "second") // and is queued
	h.set(2, kernel.Runnable, 1)
	h.woken(3, 1, "third") // and waits for something else
	h.set(3, kernel.Sleeping, 2)
	h.woken(4, 1, "fourth") // and ends
	h.threads = slices.DeleteFunc(h.threads, func(t kernel.Thread) bool { return t.TID == 4 })
	h.woken(5, 7, "of another wait")
	h.woken(9, 1, "of a thread that nobody knows")
	h.lost = 3
	h.pass(t, c, 10)
	h.set(2, kernel.Running, 1)
	h.set(3, kernel.Running, 2)
	h.pass(t, c, 10)
	c.Flush()
	want := map[credit]bool{
		{1, 100, kernel.Sleeping, unwind.Complete, 10, "first"}:  true,
		{2, 100, kernel.Sleeping, unwind.Complete, 10, "second"}: true,
		{2, 100, kernel.Runnable, unwind.Complete, 10, ""}:       true,
		{3, 100, kernel.Sleeping, unwind.Complete, 10, "third"}:  true,
		{3, 200, kernel.Sleeping, unwind.Complete, 10, ""}:       true,
		{4, 100, kernel.Sleeping, unwind.Complete, 10, "fourth"}: true,
		{5, 100, kernel.Sleeping, unwind.Complete, 30, ""}:       true,
	}
	for _, got := range h.got {
		if !want[got] {
			t.Errorf("credit %+v is not wanted, or there twice", got)
		}
		delete(want, got)
	}
	if len(want) > 0 {
		t.Errorf("missing: %+v", want)
	}
	if s := c.Stats(); s.Wakers != 4 || s.WakersLost != 3 || len(c.wakers.of) != 0 {
		t.Errorf("stats %+v, and %d wakers are kept", s, len(c.wakers.of))
	}
}

// TestWakerComesLate: a waker between the look at the thread and the end of the pass is kept for the next pass.
func TestWakerComesLate(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 1)
	c := newClock(h)
	if err := c.SetWakers(true); err != nil {
		t.Fatal(err)
	}
	h.pass(t, c, 10)
	h.woken(1, 1, "late")
	h.pass(t, c, 10) // which finds the thread in its place
	h.set(1, kernel.Running, 1)
	h.pass(t, c, 10)
	if want := (credit{1, 100, kernel.Sleeping, unwind.Complete, 10, "late"}); len(h.got) != 1 || h.got[0] != want {
		t.Errorf("credits %+v, want %+v", h.got, want)
	}
}

// TestSetWakers: an impossible setting is refused, and unwanted wakers are not read.
func TestSetWakers(t *testing.T) {
	h := &host{failing: true}
	c := newClock(h)
	if c.SetWakers(true) == nil || c.wakers.wanted {
		t.Error("wakers that cannot be had are wanted")
	}
	h.failing = false
	h.set(1, kernel.Sleeping, 1)
	h.pass(t, c, 10)
	h.woken(1, 1, "nobody asks")
	h.set(1, kernel.Running, 1)
	h.pass(t, c, 10)
	if len(h.wakers) != 1 {
		t.Error("wakers were read")
	}
	for _, wanted := range []bool{true, true, false, false} {
		if err := c.SetWakers(wanted); err != nil || h.watched != wanted {
			t.Errorf("watched: %v, %v", h.watched, err)
		}
	}
}
