// Package clock reads the clock of samples and side-band records.
package clock

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// started is a moment, and its time on the clock that samples have.
var started = sync.OnceValues(func() (time.Time, uint64) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Now(), 0 // cannot be: the clock exists
	}
	return time.Now(), uint64(ts.Nano())
})

// Monotonic is the time on the clock that samples and side-band records have, in
// ns. That is Go's own monotonic clock, which is read without a system call.
func Monotonic() uint64 {
	when, ns := started()
	return ns + uint64(time.Since(when))
}
