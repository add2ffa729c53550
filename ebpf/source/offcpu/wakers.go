package offcpu

import (
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
)

// wakers are the tasks that ended waits that are not settled yet.
type wakers struct {
	wanted bool
	of     map[uint32]*kernel.Waker // by the thread that waited
	lost   uint64                   // as Passes has counted them
}

func newWakers(wanted bool) wakers {
	return wakers{wanted: wanted, of: map[uint32]*kernel.Waker{}}
}

// SetWakers sets whether samples have a Waker. After an error the setting is as before.
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

// isOf reports whether a waker has ended the wait in which a thread is, or was when it was seen.
func isOf(w *kernel.Waker, t *kernel.Thread) bool {
	return w.TID == t.TID && w.Started == t.Started && w.Switches == t.Switches
}

// ender returns the waker that ended the wait of a thread, nil if the thread does not wait or the waker is not known.
func (w *wakers) ender(t *kernel.Thread) *kernel.Waker {
	if by := w.of[t.TID]; by != nil && isOf(by, t) && t.State.Waits() {
		return by
	}
	return nil
}

// settleEnded settles the threads in p.ended, and forgets their wakers.
func (p *pass) settleEnded() error {
	err := p.readWakers()
	for i := range p.ended {
		t := &p.ended[i]
		p.settle(t)
		delete(p.wakers.of, t.TID)
	}
	return err
}

// readWakers notes the wakers of known threads and of the threads in p.ended, so it keeps one for each at most.
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
