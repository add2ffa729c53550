package ebpf

import (
	"context"
	"sync"
)

// runner runs the loop of a session.
type runner struct {
	cancel context.CancelFunc
	loop   sync.WaitGroup
	failed chan struct{} // closed when the loop has failed
	err    error         // why it failed
}

// start runs a loop until stop. The loop returns nil when its context is done.
func (r *runner) start(loop func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.failed = cancel, make(chan struct{})
	r.loop.Go(func() {
		if r.err = loop(ctx); r.err != nil {
			close(r.failed)
		}
	})
}

// failure returns why the loop failed, nil if it has not.
func (r *runner) failure() error {
	select {
	case <-r.failed:
		return r.err
	default:
		return nil
	}
}

// stopAndWait ends the loop and waits for it.
func (r *runner) stopAndWait() {
	r.cancel()
	r.loop.Wait()
}
