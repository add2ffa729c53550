// Package mailbox hands the newest of several values from one goroutine to
// another, as Update hands arguments to Run.
package mailbox

import "sync"

// Mailbox hands the newest value from any number of senders to one receiver.
// Sending never blocks; a value not yet received is replaced.
type Mailbox[T any] struct {
	mu sync.Mutex // held by senders
	ch chan T
}

// New returns an empty Mailbox.
func New[T any]() *Mailbox[T] { return &Mailbox[T]{ch: make(chan T, 1)} }

// Send puts v in the place of what has not been received yet.
func (m *Mailbox[T]) Send(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.ch:
	default:
	}
	m.ch <- v // there is room: only senders fill it, and this is the only one now
}

// Receive returns the channel on which the newest value waits. It is never closed.
func (m *Mailbox[T]) Receive() <-chan T { return m.ch }
