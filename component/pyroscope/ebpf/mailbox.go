package ebpf

import "sync"

// mailbox hands the newest value from any number of senders to one receiver.
// Sending never blocks; a value not yet received is replaced.
type mailbox[T any] struct {
	mu sync.Mutex // held by senders
	ch chan T
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{ch: make(chan T, 1)} }

func (m *mailbox[T]) send(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.ch:
	default:
	}
	m.ch <- v // there is room: only senders fill it, and this is the only one now
}

func (m *mailbox[T]) receive() <-chan T { return m.ch }
