package kernel

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaiter: a wait ends when there is data to read, after its deadline, once for each flush, before or during the
// wait, and always after stop.
func TestWaiter(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[1])
	w, err := newWaiter(pipe[0], "pipe")
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	readable := func() bool {
		n, err := unix.Read(pipe[0], make([]byte, 1))
		return n == 1 && err == nil
	}
	expect := func(what string, deadline time.Time, wantFlushed bool, wantErr error) {
		t.Helper()
		if flushed, err := w.waitUntil(deadline, readable); flushed != wantFlushed || !errors.Is(err, wantErr) {
			t.Errorf("%s: flushed %t, %v, want %t, %v", what, flushed, err, wantFlushed, wantErr)
		}
	}
	soon := func(do func()) { time.AfterFunc(10*time.Millisecond, do) }

	soon(func() { unix.Write(pipe[1], []byte{1}) })
	expect("written to", time.Time{}, false, nil)
	expect("nothing there", time.Now().Add(10*time.Millisecond), false, os.ErrDeadlineExceeded)
	soon(func() { w.flush() })
	expect("flushed meanwhile", time.Time{}, true, os.ErrDeadlineExceeded)
	w.flush()
	expect("flushed before", time.Time{}, true, os.ErrDeadlineExceeded)
	expect("not flushed again", time.Now().Add(10*time.Millisecond), false, os.ErrDeadlineExceeded)
	soon(func() { w.stopWaits() })
	expect("stopped meanwhile", time.Time{}, false, ErrClosed)
	expect("stopped before", time.Time{}, false, ErrClosed)
	if err := w.flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("flush after stop: %v", err)
	}
}
