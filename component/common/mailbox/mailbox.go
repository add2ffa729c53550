// Package mailbox hands the newest of several values from one goroutine to
// another, as Update hands arguments to Run.
package mailbox

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Mailbox hands the newest value from any number of senders to one receiver.
// Sending never blocks; a value not yet received is replaced.
type Mailbox[T any] struct {
	mu sync.Mutex // held by senders
	ch chan T
}

// New returns an empty Mailbox.
func New[T any]() *Mailbox[T] { return &Mailbox[T]{ch: make(chan T, 1)} }

// Send stores v and replaces a value that has not been received yet.
func (m *Mailbox[T]) Send(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.ch:
	default:
	}
	m.ch <- v // there is room: only senders fill it, and this is the only sender now
}

// Receive returns the channel on which the newest value waits. It is never closed.
func (m *Mailbox[T]) Receive() <-chan T { return m.ch }

// Update sends args if they are a T. It is the Update of a component whose Run
// receives all its arguments.
func (m *Mailbox[T]) Update(args any) error {
	fresh, ok := args.(T)
	if !ok {
		return fmt.Errorf("arguments are a %T, not a %T", args, fresh)
	}
	m.Send(fresh)
	return nil
}

// Turns yields the newest value, with fresh set, as soon as it arrives, and yields it again after every
// interval(value), until ctx is done.
func (m *Mailbox[T]) Turns(ctx context.Context, interval func(T) time.Duration) iter.Seq2[T, bool] {
	return func(yield func(value T, fresh bool) bool) {
		var value T
		ticker := time.NewTicker(time.Hour)
		ticker.Stop() // until there is a value
		defer ticker.Stop()
		for {
			fresh := false
			select {
			case <-ctx.Done():
				return
			case value = <-m.ch:
				fresh = true
				ticker.Reset(interval(value))
			case <-ticker.C:
			}
			if !yield(value, fresh) {
				return
			}
		}
	}
}
