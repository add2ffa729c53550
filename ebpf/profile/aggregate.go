package profile

import (
	"cmp"
	"encoding/binary"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/numa"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
)

// aggregate counts equal samples between two collections. Frames are addresses here, and are named only by a
// collection.
type aggregate struct {
	begun   time.Time
	ended   time.Time // set when the aggregate is complete
	from    uint64    // time of the first sample, CLOCK_MONOTONIC
	epoch   int64     // time of CLOCK_MONOTONIC 0, ns since 1970
	options Options
	labels  []sampleLabel // of the options
	nodes   *numa.Nodes   // NUMA nodes of CPUs
	targets map[countsKey]*targetCounts
	bytes   int            // size of the keys of stacks
	key     []byte         // scratch of add
	folded  []kernel.Frame // scratch of add
	values  []byte         // scratch of add
}

// countsKey is the key of a profile.
type countsKey struct {
	target uint64 // fingerprint of the target
	kind   kind.Kind
}

// targetCounts counts the samples of one kind of one target.
type targetCounts struct {
	target    *target.Target
	kind      kind.Kind
	stacks    map[string]*weight // by key, see stack.appendKey
	times     map[string][]int64 // times of the samples, ns since 1970, with Options.Timestamps
	processes map[uint32]*countedProcess
}

// weight is the sum of the samples of a stack.
type weight struct {
	value   uint64 // in the unit of the first value of the kind
	samples uint64
	largest uint64 // largest value of a sample
}

// countedProcess counts the samples of one process.
type countedProcess struct {
	Process
	program unwind.ExeID // the executable that it runs, 0 if unknown
}

// stack holds the fields by which samples are distinguished.
type stack struct {
	comm    string
	pid     uint32 // 0 unless a frame is outside any file
	labels  string // values of Options.Labels, see appendLabels
	doing   doing  // state of the thread; zero if unknown
	outcome unwind.Outcome
	kernel  []uint64       // addresses, leaf first
	user    []kernel.Frame // leaf first
	times   []int64        // times of the samples, with Options.Timestamps; not part of the key
}

// newAggregate returns an empty aggregate. epoch is the time of CLOCK_MONOTONIC 0, in ns since 1970.
func newAggregate(o Options, epoch int64, nodes *numa.Nodes) *aggregate {
	return &aggregate{
		begun:   time.Now(),
		epoch:   epoch,
		from:    clock.Monotonic(),
		options: o,
		labels:  chosenLabels(o.Labels),
		nodes:   nodes,
		targets: map[countsKey]*targetCounts{},
	}
}

// addSample counts a sample for its target. waker is the waker that ended the wait of its thread, "" if unknown.
func (a *aggregate) addSample(s *sampler.Sample, waker string) {
	t := s.Target
	of := countsKey{t.Fingerprint(), s.Kind}
	counts := a.targets[of]
	if counts == nil {
		counts = &targetCounts{
			target: t, kind: s.Kind, stacks: map[string]*weight{}, times: map[string][]int64{},
			processes: map[uint32]*countedProcess{},
		}
		a.targets[of] = counts
	}
	value := cmp.Or(s.Value, uint64(a.options.period(s.Kind)))
	counts.countProcess(s, value)

	st := stack{comm: s.ProcessComm, outcome: s.Outcome, kernel: s.Kernel, user: a.options.frames(s), doing: doingOf(s)}
	st.doing.waker = waker
	if a.options.FoldRuntimes {
		a.folded = foldRuntime(a.folded[:0], st.user, s.Runtime)
		st.user = a.folded
	}
	if s.OutsideFile {
		st.pid = s.PID
	}
	a.values = a.appendLabels(a.values[:0], s)
	a.key = st.appendKey(a.key[:0], a.values)
	w := counts.stacks[string(a.key)]
	if w == nil {
		w = &weight{}
		counts.stacks[string(a.key)] = w
		a.bytes += len(a.key)
	}
	w.value += value
	w.samples++
	w.largest = max(w.largest, value)
	if a.options.Timestamps {
		counts.times[string(a.key)] = append(counts.times[string(a.key)], a.epoch+int64(s.Time))
	}
}

// countProcess counts a sample with a value for its process.
func (c *targetCounts) countProcess(s *sampler.Sample, value uint64) {
	p := c.processes[s.PID]
	if p == nil {
		p = &countedProcess{Process: Process{PID: s.PID}}
		c.processes[s.PID] = p
	}
	p.Comm = s.ProcessComm // the latest name
	if s.Program != 0 {
		p.program = s.Program
	}
	p.Samples++
	p.Value += value
	if s.Outcome.HasUserPart() {
		p.WithUser++
	}
	if s.Outcome.Complete() {
		p.Complete++
	}
}

// samples returns the number of counted samples.
func (c *targetCounts) samples() (sum uint64) {
	for _, p := range c.processes {
		sum += p.Samples
	}
	return sum
}

// eachStack yields every stack and its weight. A stack is valid until the next one.
func (c *targetCounts) eachStack(yield func(*stack, weight) bool) {
	var s stack
	for key, w := range c.stacks {
		s.decode(key)
		s.times = c.times[key]
		if !yield(&s, *w) {
			return
		}
	}
}

// hasCode is a flag of a frame in a key: the frame's Code follows.
const hasCode = 0x80

// appendKey appends s, with labels in place of its own, as a key that decode reads. Stacks are stored only as keys, so
// a frame takes just the 13 bytes that nearly all frames need.
func (s *stack) appendKey(b, labels []byte) []byte {
	b = append(b, s.comm...)
	b = append(b, 0, byte(s.outcome))
	b = binary.NativeEndian.AppendUint32(b, s.pid)
	b = binary.NativeEndian.AppendUint16(b, uint16(len(labels)))
	b = append(b, labels...)
	b = s.doing.appendKey(b)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(s.kernel)))
	for _, addr := range s.kernel {
		b = binary.NativeEndian.AppendUint64(b, addr)
	}
	for _, f := range s.user {
		b = binary.NativeEndian.AppendUint64(b, f.Vaddr)
		b = binary.NativeEndian.AppendUint32(b, uint32(f.Exe))
		if f.Code == 0 {
			b = append(b, byte(f.Flags&^hasCode))
			continue
		}
		b = append(b, byte(f.Flags|hasCode))
		b = binary.NativeEndian.AppendUint32(b, uint32(f.Code))
	}
	return b
}

// decode reads a key. It reuses the memory of s.
func (s *stack) decode(key string) {
	comm, rest, _ := strings.Cut(key, "\x00")
	b := keyReader(rest)
	*s = stack{
		comm: comm, outcome: unwind.Outcome(b.byte()), pid: b.uint32(), labels: b.text(int(b.uint16())), doing: b.doing(),
		kernel: s.kernel[:0], user: s.user[:0],
	}
	for range b.uint32() {
		s.kernel = append(s.kernel, b.uint64())
	}
	for len(b) > 0 {
		f := kernel.Frame{Vaddr: b.uint64(), Exe: unwind.ExeID(b.uint32()), Flags: kernel.FrameFlags(b.byte())}
		if f.Flags&hasCode != 0 {
			f.Flags &^= hasCode
			f.Code = unwind.CodeID(b.uint32())
		}
		s.user = append(s.user, f)
	}
}

// keyReader reads the rest of a key.
type keyReader string

func (b *keyReader) byte() byte {
	v := (*b)[0]
	*b = (*b)[1:]
	return v
}

func (b *keyReader) uint16() uint16 {
	v := binary.NativeEndian.Uint16([]byte((*b)[:2]))
	*b = (*b)[2:]
	return v
}

// text reads n bytes.
func (b *keyReader) text(n int) string {
	v := string((*b)[:n])
	*b = (*b)[n:]
	return v
}

func (b *keyReader) uint32() uint32 {
	v := binary.NativeEndian.Uint32([]byte((*b)[:4]))
	*b = (*b)[4:]
	return v
}

func (b *keyReader) uint64() uint64 {
	v := binary.NativeEndian.Uint64([]byte((*b)[:8]))
	*b = (*b)[8:]
	return v
}
