package testkit

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The acceptable cost of a fuzz target's input: a user who makes such a file, or such memory, takes that much of the
// profiler's time.
const (
	cheapAtOnce  = 100 * time.Millisecond
	cheapPerByte = 20 * time.Microsecond
)

// Cheap fails a fuzz target that takes more CPU time than is acceptable for its input of size bytes: the fuzzer then
// keeps the slow input. It measures only the calling goroutine, from this call until end is called. Without go test
// -fuzz it has no effect: the result of a test does not depend on the CPU's speed.
func Cheap(t testing.TB, size int) (end func()) {
	if fuzz := flag.Lookup("test.fuzz"); fuzz == nil || fuzz.Value.String() == "" {
		return func() {}
	}
	runtime.LockOSThread()
	before := threadTime(t)
	return func() {
		t.Helper()
		took := threadTime(t) - before
		runtime.UnlockOSThread()
		if most := cheapAtOnce + time.Duration(size)*cheapPerByte; took > most {
			t.Errorf("%v of CPU time for an input of %d bytes, more than %v", took, size, most)
		}
	}
}

func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
