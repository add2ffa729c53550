package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// perfEvent is a perf event of one CPU, for all tasks.
type perfEvent struct {
	fd     int
	cpu    int
	period uint64        // events, or ns of a clock
	ran    time.Duration // when alive was called last
}

func openPerfEvent(attr *unix.PerfEventAttr, cpu int) (*perfEvent, error) {
	attr.Size = uint32(unsafe.Sizeof(*attr))
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open on CPU %d: %w", cpu, err)
	}
	return &perfEvent{fd: fd, cpu: cpu, period: attr.Sample}, nil
}

// clockAttr describes the sampling event: the CPU's clock, with a fixed period.
func clockAttr(period time.Duration) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:      uint64(period),
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits:        unix.PerfBitDisabled,
	}
}

// attach runs a BPF program at every sample. It uses an ioctl, since perf links need Linux 5.15.
func (e *perfEvent) attach(program int) error {
	if err := e.setProgram(program); err != nil {
		return err
	}
	return e.enable()
}

func (e *perfEvent) setProgram(program int) error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_SET_BPF, program); err != nil {
		return fmt.Errorf("attach to the perf event of CPU %d: %w", e.cpu, err)
	}
	return nil
}

func (e *perfEvent) enable() error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("enable the perf event of CPU %d: %w", e.cpu, err)
	}
	return nil
}

func (e *perfEvent) disable() error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
		return fmt.Errorf("disable the perf event of CPU %d: %w", e.cpu, err)
	}
	return nil
}

// setPeriod changes the sampling period: events, or ns of a clock. The kernel would interrupt the CPU and start the
// period again, so an equal period changes nothing.
func (e *perfEvent) setPeriod(period uint64) error {
	if period == e.period {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_PERIOD,
		uintptr(unsafe.Pointer(&period))); errno != 0 {
		return fmt.Errorf("set the period of CPU %d's perf event to %d: %w", e.cpu, period, errno)
	}
	e.period = period
	return nil
}

// times returns the time that a clock has counted, and the time that it should have counted. The kernel stops a clock
// that takes too many samples in a tick until the tick ends; a stopped clock does not count.
func (e *perfEvent) times() (counted, running time.Duration, err error) {
	var b [24]byte // value, time enabled, time running
	n, err := unix.Read(e.fd, b[:])
	if err != nil || n != len(b) {
		return 0, 0, fmt.Errorf("read the clock of CPU %d: %d bytes, %w", e.cpu, n, err)
	}
	return time.Duration(binary.NativeEndian.Uint64(b[:])), time.Duration(binary.NativeEndian.Uint64(b[16:])), nil
}

// alive reports whether an event that has times has run since the last call. The kernel ends the events of a CPU that
// goes offline: they have no more records and take no more samples when the CPU is back.
func (e *perfEvent) alive() bool {
	_, running, err := e.times()
	alive := err == nil && running > e.ran
	e.ran = running
	return alive
}

func (e *perfEvent) close() error { return unix.Close(e.fd) }

// onlineCPUs reads the CPUs that are online.
func onlineCPUs() ([]int, error) {
	const path = "/sys/devices/system/cpu/online"
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cpus, nil
}

// parseCPUs reads a list like "0-3,8".
func parseCPUs(list string) ([]int, error) {
	const most = 1 << 16
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, ok := strings.Cut(part, "-")
		if !ok {
			hi = lo
		}
		first, err1 := strconv.Atoi(lo)
		last, err2 := strconv.Atoi(hi)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", list, err)
		}
		if first < 0 || last < first || last >= most {
			return nil, fmt.Errorf("CPU list %q: bad range %q", list, part)
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
