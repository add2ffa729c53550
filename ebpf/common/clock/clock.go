// Package clock reads the clock of samples and side-band records.
package clock

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// started returns a moment, and its time on the clock that samples have.
var started = sync.OnceValues(func() (time.Time, uint64) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Now(), 0 // cannot be: the clock exists
	}
	return time.Now(), uint64(ts.Nano() - namespaceOffset())
})

// Monotonic returns the time on the clock that samples and side-band records have, in ns: CLOCK_MONOTONIC of the host.
// It is Go's own monotonic clock, which is read without a system call, minus the offset of this process's time
// namespace.
func Monotonic() uint64 {
	when, ns := started()
	return ns + uint64(time.Since(when))
}

// namespaceOffset returns the number of ns that the time namespace of this process adds to CLOCK_MONOTONIC
// (time_namespaces(7)): 0 in the host's namespace, and on kernels without time namespaces.
func namespaceOffset() int64 {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) { // "monotonic 1000 0": the clock, seconds, nanoseconds
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "monotonic" {
			continue
		}
		seconds, err1 := strconv.ParseInt(fields[1], 10, 64)
		ns, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 == nil && err2 == nil {
			return seconds*int64(time.Second) + ns
		}
	}
	return 0
}
