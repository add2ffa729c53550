package ebpf

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/feed"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/ebpf/unwind"
)

// aggregate counts equal samples between two collections. Nothing is named
// here: frames stay addresses until somebody asks for profiles.
type aggregate struct {
	begun   time.Time
	ended   time.Time     // set when it is no longer added to
	from    uint64        // time of the first sample that belongs here, CLOCK_MONOTONIC
	period  time.Duration // between two samples of a CPU
	options Options
	targets map[uint64]*targetCounts // by fingerprint
	key     []byte                   // scratch of add
}

// targetCounts is what one target did.
type targetCounts struct {
	target    *target.Target
	stacks    map[string]*stackCount // by content
	processes map[uint32]*Process
}

// stackCount is one stack and how often it was seen.
type stackCount struct {
	stack
	count uint64
}

// stack is what makes two samples different.
type stack struct {
	comm    string
	pid     uint32 // 0 unless PIDs are labels, or some frame is in no file
	outcome unwind.Outcome
	kernel  []uint64       // addresses, leaf first
	user    []kernel.Frame // leaf first
}

func newAggregate(o Options) *aggregate {
	return &aggregate{
		begun:   time.Now(),
		from:    feed.Monotonic(),
		period:  time.Second / time.Duration(o.SampleRate),
		options: o,
		targets: map[uint64]*targetCounts{},
	}
}

// add counts a sample of a process called comm.
func (a *aggregate) add(t *target.Target, pid uint32, comm string, s *kernel.Sample) {
	counts := a.targets[t.Fingerprint()]
	if counts == nil {
		counts = &targetCounts{target: t, stacks: map[string]*stackCount{}, processes: map[uint32]*Process{}}
		a.targets[t.Fingerprint()] = counts
	}
	counts.countProcess(pid, comm, s.Outcome)

	st := stack{comm: comm, outcome: s.Outcome, kernel: s.Kernel, user: s.User}
	if a.options.PIDLabel || outsideFiles(s.User) {
		st.pid = pid
	}
	a.key = st.appendKey(a.key[:0])
	known := counts.stacks[string(a.key)]
	if known == nil {
		st.kernel, st.user = slices.Clone(st.kernel), slices.Clone(st.user)
		known = &stackCount{stack: st}
		counts.stacks[string(a.key)] = known
	}
	known.count++
}

// outsideFiles reports whether some frame is in no file: what its address means
// depends on the process.
func outsideFiles(frames []kernel.Frame) bool {
	return slices.ContainsFunc(frames, func(f kernel.Frame) bool { return f.Exe == 0 })
}

func (c *targetCounts) countProcess(pid uint32, comm string, o unwind.Outcome) {
	p := c.processes[pid]
	if p == nil {
		p = &Process{PID: pid}
		c.processes[pid] = p
	}
	p.Comm = comm // the latest
	p.Samples++
	if hasUserPart(o) {
		p.WithUser++
	}
	if o.Complete() {
		p.Complete++
	}
}

// hasUserPart reports whether a sample should have user frames.
func hasUserPart(o unwind.Outcome) bool {
	return o != unwind.KernelThread && o != unwind.NotCollected && o != unwind.NoUserRegisters
}

func (s *stack) appendKey(b []byte) []byte {
	b = append(b, s.comm...)
	b = append(b, 0, byte(s.outcome))
	b = binary.NativeEndian.AppendUint32(b, s.pid)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(s.kernel)))
	for _, addr := range s.kernel {
		b = binary.NativeEndian.AppendUint64(b, addr)
	}
	for _, f := range s.user {
		b = binary.NativeEndian.AppendUint64(b, f.Address)
		b = binary.NativeEndian.AppendUint32(b, f.Exe)
		b = binary.NativeEndian.AppendUint32(b, uint32(f.Flags))
	}
	return b
}
