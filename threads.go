package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// urgent is the nice value of headwater run, unless it was started with another one
	// than 0: what it does is little, but where CPUs are busy the kernel's buffers
	// overflow when it comes late. It is below that of programs that are told to run
	// before others, which use -10 at most.
	urgent = -15
	// slack is by how much, in ns, the kernel may be late to end a sleep, to end
	// several at once. The monitor of Go's runtime sleeps for 20 us at a time while
	// anything runs, which costs more than much of what runs; with this it is the 10 ms
	// that it takes at its laziest. We want nothing on time by less.
	slack = "10000000"
	// cpusPerProcessor is how many CPUs are profiled by one that runs Go code. What
	// another one could take over is less than what it costs to wake it for that.
	cpusPerProcessor = 8
)

// runCalmly lets this process interrupt others as seldom as it can, but then at
// once. Nothing is lost if it fails, which takes CAP_SYS_NICE.
func runCalmly() error {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), max(1, runtime.NumCPU()/cpusPerProcessor)))
	}
	nice, err := niceValue()
	if err != nil {
		return err
	}
	return eachThread(func(tid int) error {
		var errs []error
		if nice == 0 {
			errs = append(errs, os.NewSyscallError("setpriority", unix.Setpriority(unix.PRIO_PROCESS, tid, urgent)))
		}
		return errors.Join(append(errs, os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid), []byte(slack), 0o644))...)
	})
}

// niceValue returns that of the calling thread.
func niceValue() (int, error) {
	raised, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - raised, os.NewSyscallError("getpriority", err) // the kernel's values have no negative ones
}

// eachThread calls f for every thread of this process once. Those that start later
// have what f gave to the one that started them.
func eachThread(f func(tid int) error) error {
	seen := map[int]bool{}
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil || seen[tid] {
				continue
			}
			if err := f(tid); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			seen[tid], more = true, true
		}
	}
	return nil
}
