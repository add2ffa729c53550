package kernel

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waiter waits for a file descriptor to become readable through the runtime's poller. A goroutine that waits in its own
// system call, such as epoll_wait, keeps the runtime's monitor awake for up to 10 ms each time, at about a millisecond
// of CPU time. One goroutine may wait; the other methods may be called at any time.
type waiter struct {
	file *os.File
	raw  syscall.RawConn

	mu      sync.Mutex
	flushed bool // the present or the next wait ends
	stopped bool // every wait ends
}

// newWaiter takes ownership of fd.
func newWaiter(fd int, name string) (*waiter, error) {
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile polls it
		unix.Close(fd)
		return nil, fmt.Errorf("wait for %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("wait for %s: %w", name, err)
	}
	return &waiter{file: file, raw: raw}, nil
}

// waitUntil calls ready whenever there may be data to read, and returns once ready returns true. After the deadline,
// which may be zero for none, or with flushed after a call of flush, it returns os.ErrDeadlineExceeded; after stop
// ErrClosed.
func (w *waiter) waitUntil(deadline time.Time, ready func() bool) (flushed bool, err error) {
	if err := w.setDeadline(deadline); err != nil {
		return false, err
	}
	err = w.raw.Read(func(uintptr) bool { return ready() })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false, ErrClosed
	}
	if err == nil {
		return false, nil
	}
	flushed, w.flushed = w.flushed, false
	return flushed, err
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

func (w *waiter) setDeadline(deadline time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.flushed {
		deadline = past
	}
	return w.file.SetReadDeadline(deadline)
}

// flush ends the present wait or, if no goroutine waits, the next one that finds no data.
func (w *waiter) flush() error { return w.endWait(&w.flushed) }

// stopWaits ends the present and every later wait.
func (w *waiter) stopWaits() error { return w.endWait(&w.stopped) }

func (w *waiter) endWait(why *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return ErrClosed
	}
	*why = true
	return w.file.SetReadDeadline(past)
}

// close releases the descriptor. No goroutine may be waiting.
func (w *waiter) close() error { return w.file.Close() }
