package kernel

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

const (
	logBytes    = int(unsafe.Sizeof(profilerLog{}))
	logWords    = uint64(profilerLimitsLOG_WORDS)
	sampleHead  = int(unsafe.Sizeof(profilerSample{}))
	sampleWords = uint64(profilerLimitsSAMPLE_WORDS)
)

// logs are the CPUs' logs of samples, mapped into this process, see bpf/maps.h.
type logs struct {
	mem   []byte
	byCPU []*profilerLog
}

// openLogs maps the logs of so many CPUs.
func openLogs(m *ebpf.Map, cpus int) (*logs, error) {
	mem, err := unix.Mmap(m.FD(), 0, cpus*logBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the logs of samples: %w", err)
	}
	l := &logs{mem: mem}
	for cpu := range cpus {
		l.byCPU = append(l.byCPU, (*profilerLog)(unsafe.Pointer(&mem[cpu*logBytes])))
	}
	return l, nil
}

func (l *logs) close() error {
	if err := unix.Munmap(l.mem); err != nil {
		return fmt.Errorf("unmap the logs of samples: %w", err)
	}
	return nil
}

// errLog is what must not be in a log.
var errLog = errors.New("a log of samples is damaged")

// drain hands the samples of a CPU's log to use, as bytes that are valid until it
// returns, and tells BPF that their place is free.
func drain(log *profilerLog, use func(sample []byte) error) error {
	head := atomic.LoadUint64(&log.Head)
	if head >= logWords {
		return fmt.Errorf("%w: its head is %d", errLog, head)
	}
	read := uint64(0)
	for at := log.Tail; at != head; {
		words, err := sampleAt(log, at)
		if err != nil {
			return err
		}
		if read += uint64(len(words)); read > logWords+sampleWords {
			return fmt.Errorf("%w: no sample ends at its head, %d", errLog, head)
		}
		if err := use(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))); err != nil {
			return err
		}
		if at += uint64(len(words)); at >= logWords {
			at = 0
		}
		atomic.StoreUint64(&log.Tail, at)
	}
	return nil
}

// sampleAt returns the words of the sample that begins at a word.
func sampleAt(log *profilerLog, at uint64) ([]uint64, error) {
	if at >= logWords {
		return nil, fmt.Errorf("%w: a sample at %d", errLog, at)
	}
	s := (*profilerSample)(unsafe.Pointer(&log.Words[at]))
	words := uint64(s.Size)
	if words < uint64(sampleHead)/8 || words > sampleWords {
		return nil, fmt.Errorf("%w: a sample of %d words", errLog, words)
	}
	return log.Words[at : at+words], nil
}

// counters adds up what the CPUs have counted.
func (l *logs) counters() (c Counters) {
	load := func(n *uint64) uint64 { return atomic.LoadUint64(n) }
	for _, log := range l.byCPU {
		n := &log.Counters
		c.Ticks += load(&n.Ticks)
		c.Idle += load(&n.Idle)
		c.Ignored += load(&n.Ignored)
		c.Lost += load(&n.Lost)
		c.Copies += load(&n.Copies)
		c.CopiedBytes += load(&n.CopiedBytes)
		c.Uncopied += load(&n.Uncopied)
		for i := range n.Outcomes {
			c.Outcomes[i] += load(&n.Outcomes[i])
		}
	}
	return c
}
