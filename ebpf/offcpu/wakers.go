package offcpu

import (
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
)

// wakers are those who have ended waits that are not settled yet.
type wakers struct {
	wanted bool
	of     map[uint32]*kernel.Waker // by the thread that waited
	lost   uint64                   // as Passes has counted them
}

func newWakers(wanted bool) wakers {
	return wakers{wanted: wanted, of: map[uint32]*kernel.Waker{}}
}

// SetWakers says whether samples are to have a Waker. An error means that it is as before.
func (c *Clock) SetWakers(wanted bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case wanted == c.wakers.wanted:
		return nil
	case wanted:
		if err := c.options.Passes.WatchWakers(); err != nil {
			return err
		}
	default:
		if err := c.options.Passes.IgnoreWakers(); err != nil {
			return err
		}
	}
	c.wakers = newWakers(wanted)
	return nil
}

// isOf reports whether a waker has ended the wait that a thread is in, or was in when it was seen.
func isOf(w *kernel.Waker, t *kernel.Thread) bool {
	return w.TID == t.TID && w.Started == t.Started && w.Switches == t.Switches
}

// ender returns who has ended the wait of a thread, nil if it does not wait or that is not known.
func (w *wakers) ender(t *kernel.Thread) *kernel.Waker {
	if by := w.of[t.TID]; by != nil && isOf(by, t) && t.State.Waits() {
		return by
	}
	return nil
}

// settleEnded settles what was over when the pass came by, and forgets who has ended it.
func (p *pass) settleEnded() error {
	err := p.readWakers()
	for i := range p.ended {
		t := &p.ended[i]
		p.settle(t)
		delete(p.wakers.of, t.TID)
	}
	return err
}

// readWakers takes note of who has ended waits of threads that are known, and of those that the pass has found ended:
// no more of them than threads are kept.
func (p *pass) readWakers() error {
	if !p.wakers.wanted {
		return nil
	}
	ended := map[uint32]*kernel.Thread{}
	for i := range p.ended {
		ended[p.ended[i].TID] = &p.ended[i].Thread
	}
	lost, err := p.options.Passes.ReadWakers(func(w *kernel.Waker) {
		t := ended[w.TID]
		if t == nil && p.threads[w.TID] != nil {
			t = &p.threads[w.TID].Thread
		}
		if t == nil || !isOf(w, t) {
			return
		}
		kept := *w
		kept.Kernel = slices.Clone(w.Kernel)
		p.wakers.of[w.TID] = &kept
		p.stats.Wakers++
	})
	if err != nil {
		return err
	}
	p.stats.WakersLost += lost - p.wakers.lost
	p.wakers.lost = lost
	return nil
}
