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
	ringBytes   = int(unsafe.Sizeof(profilerSampleRing{}))
	ringWords   = uint64(profilerLimitsRING_WORDS)
	sampleHead  = int(unsafe.Sizeof(profilerSample{}))
	sampleWords = uint64(profilerLimitsSAMPLE_WORDS)
)

// sampleRings are the CPUs' rings of samples, mapped into this process, see bpf/sample/maps.h.
type sampleRings struct {
	mem   []byte
	byCPU []*profilerSampleRing
}

// openRings maps the rings of the first cpus CPUs.
func openRings(m *ebpf.Map, cpus int) (*sampleRings, error) {
	mem, err := unix.Mmap(m.FD(), 0, cpus*ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the rings of samples: %w", err)
	}
	r := &sampleRings{mem: mem}
	for cpu := range cpus {
		r.byCPU = append(r.byCPU, (*profilerSampleRing)(unsafe.Pointer(&mem[cpu*ringBytes])))
	}
	return r, nil
}

func (r *sampleRings) close() error {
	if err := unix.Munmap(r.mem); err != nil {
		return fmt.Errorf("unmap the rings of samples: %w", err)
	}
	return nil
}

// errRing reports invalid data in a ring.
var errRing = errors.New("a ring of samples is damaged")

// drain hands the samples of a CPU's ring to use, as bytes that are valid until use returns, and then releases their
// space to BPF.
func drain(ring *profilerSampleRing, use func(sample []byte) error) error {
	head := atomic.LoadUint64(&ring.Head)
	if head >= ringWords {
		return fmt.Errorf("%w: its head is %d", errRing, head)
	}
	read := uint64(0)
	for at := ring.Tail; at != head; {
		words, err := sampleAt(ring, at)
		if err != nil {
			return err
		}
		if read += uint64(len(words)); read > ringWords+sampleWords {
			return fmt.Errorf("%w: no sample ends at its head, %d", errRing, head)
		}
		if err := use(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))); err != nil {
			return err
		}
		if at += uint64(len(words)); at >= ringWords {
			at = 0
		}
		atomic.StoreUint64(&ring.Tail, at)
	}
	return nil
}

// sampleAt returns the words of the sample that starts at a word of the ring.
func sampleAt(ring *profilerSampleRing, at uint64) ([]uint64, error) {
	if at >= ringWords {
		return nil, fmt.Errorf("%w: a sample at %d", errRing, at)
	}
	s := (*profilerSample)(unsafe.Pointer(&ring.Words[at]))
	words := uint64(s.Size)
	if words < uint64(sampleHead)/8 || words > sampleWords {
		return nil, fmt.Errorf("%w: a sample of %d words", errRing, words)
	}
	return ring.Words[at : at+words], nil
}

// taken returns how many samples of a CPU's clock were taken, or lost as the ring was full.
func (r *sampleRings) taken(cpu int) uint64 {
	if cpu >= len(r.byCPU) {
		return 0
	}
	n := &r.byCPU[cpu].Counters
	return atomic.LoadUint64(&n.Ticks) - atomic.LoadUint64(&n.Idle)
}

// counters returns the sums of the CPUs' counters.
func (r *sampleRings) counters() (c Counters) {
	load := func(n *uint64) uint64 { return atomic.LoadUint64(n) }
	for _, ring := range r.byCPU {
		n := &ring.Counters
		c.Ticks += load(&n.Ticks)
		c.Idle += load(&n.Idle)
		c.Ignored += load(&n.Ignored)
		c.Lost += load(&n.Lost)
		c.Events += load(&n.Events)
		c.EventsLost += load(&n.EventsLost)
		c.StackCopies += load(&n.Copies)
		c.StackCopyBytes += load(&n.CopiedBytes)
		c.StacksUncopied += load(&n.Uncopied)
		for i := range n.Outcomes {
			c.Outcomes[i] += load(&n.Outcomes[i])
		}
		for i := range n.Chains {
			c.Chains[i] += load(&n.Chains[i])
		}
		c.ChainFrames += load(&n.ChainFrames)
		c.CodesNamed += load(&n.Codes)
		c.CodesUnnamed += load(&n.UnnamedCodes)
	}
	return c
}
