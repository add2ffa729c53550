package profile

import (
	"maps"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

// noExecutables knows no executables.
type noExecutables struct{}

func (noExecutables) JITCode(unwind.ExeID) (*process.JITCode, bool)        { return nil, false }
func (noExecutables) Interpreter(unwind.ExeID) (*engine.Interpreter, bool) { return nil, false }
func (noExecutables) Executable(unwind.ExeID) *process.Executable          { return nil }
func (noExecutables) Source(*process.Executable) process.Source            { return process.Source{} }
func (noExecutables) DebugFiles() *debugfile.Finder                        { return nil }

func newBuilder(t testing.TB, rate int) *Builder {
	t.Helper()
	b, err := New(Options{SampleRate: rate, Comm: CommStackframe}, noExecutables{}, &filework.Pool{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// anyTarget is the target of every process.
func anyTarget() *target.Target { return target.NewFinder(target.Options{}).Find(1) }

// sample returns a complete sample of 30 frames.
func sample(pid uint32, time uint64) *sampler.Sample {
	raw := &kernel.Sample{PID: pid, Time: time, Outcome: unwind.Complete}
	for i := range uint64(30) {
		raw.User = append(raw.User, kernel.Frame{Vaddr: 0x1000 * i, Exe: 1})
	}
	return &sampler.Sample{Sample: raw, Target: anyTarget(), ProcessComm: "program"}
}

// TestAddAllocatesNothing checks that a sample equal to an earlier one takes no memory.
func TestAddAllocatesNothing(t *testing.T) {
	b, s := newBuilder(t, 97), sample(7, clock.Monotonic())
	b.Add(s)
	if n := b.Bytes(); n < 30*13 || n > 30*13+64 {
		t.Errorf("a stack of 30 frames takes %d bytes", n)
	}
	if n := testing.AllocsPerRun(1000, func() { b.Add(s) }); n > 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

// TestUpdateKeepsWeights checks that samples count according to the options at the time when they were taken.
func TestUpdateKeepsWeights(t *testing.T) {
	b := newBuilder(t, 100)
	before := clock.Monotonic()
	b.Add(sample(7, before))
	u, err := b.Prepare(Options{SampleRate: 10, Comm: CommStackframe})
	if err != nil {
		t.Fatal(err)
	}
	u.Apply()
	b.Add(sample(7, before)) // read late
	for range 5 {
		b.Add(sample(8, clock.Monotonic()))
	}
	got := map[int64]uint64{} // samples by period
	for _, p := range b.Collect() {
		for _, s := range p.Pprof.Sample {
			got[p.Pprof.Period] += uint64(s.Value[0] / p.Pprof.Period)
		}
	}
	if len(got) != 2 || got[1e7] != 2 || got[1e8] != 5 {
		t.Errorf("samples by period are %v, want 2 of 10 ms and 5 of 100 ms", got)
	}
	if n := b.Stats().Profiled; n != 7 {
		t.Errorf("%d samples are said to be in profiles, want 7", n)
	}
}

// TestUpdateKeepsWeightsOfLateSamples checks the same for samples that are read after the Collect for the old options.
func TestUpdateKeepsWeightsOfLateSamples(t *testing.T) {
	b := newBuilder(t, 100)
	before := clock.Monotonic()
	u, err := b.Prepare(Options{SampleRate: 10, Comm: CommStackframe})
	if err != nil {
		t.Fatal(err)
	}
	u.Apply()
	between := clock.Monotonic()
	b.Collect()
	b.Add(sample(7, before))
	b.Add(sample(7, between))
	b.Add(sample(7, clock.Monotonic()))
	b.Add(sample(7, before))
	got := map[int64]uint64{} // samples by period
	for _, p := range b.Collect() {
		if err := p.Pprof.CheckValid(); err != nil || p.Pprof.DurationNanos <= 0 {
			t.Errorf("a profile of %d ns: %v", p.Pprof.DurationNanos, err)
		}
		got[p.Pprof.Period] += p.Samples
	}
	if len(got) != 2 || got[1e7] != 2 || got[1e8] != 2 {
		t.Errorf("samples by period are %v, want 2 of 10 ms and 2 of 100 ms", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	builder, s := newBuilder(b, 97), sample(7, clock.Monotonic())
	b.ReportAllocs()
	for b.Loop() {
		builder.Add(s)
	}
}

// TestTimestamps checks that a profile has the times of its samples, and that equal stacks share one sample with all
// their times.
func TestTimestamps(t *testing.T) {
	b, err := New(Options{SampleRate: 100, Timestamps: true}, noExecutables{}, &filework.Pool{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	begun, first := time.Now(), clock.Monotonic()
	b.Add(sample(7, first))
	b.Add(sample(7, first+10e6))
	profiles := b.Collect()
	if len(profiles) != 1 || len(profiles[0].Pprof.Sample) != 1 {
		t.Fatalf("not one sample of one profile: %v", profiles)
	}
	times := profiles[0].Pprof.Sample[0].NumLabel[pprof.Timestamp]
	if len(times) != 2 || times[1]-times[0] != 10e6 {
		t.Fatalf("times %d", times)
	}
	if off := time.Unix(0, times[0]).Sub(begun).Abs(); off > time.Minute {
		t.Errorf("the first sample was taken %s off", off)
	}
}

// TestValues checks that the value of a sample is the period or its own value, and that a recording has the largest
// value of a stack.
func TestValues(t *testing.T) {
	b := newBuilder(t, 100)
	add := func() {
		b.Add(sample(7, clock.Monotonic()))
		b.Add(sample(7, clock.Monotonic()))
		for _, wait := range []uint64{9e9, 1e9, 2e9} {
			s := sample(8, clock.Monotonic())
			s.Kind, s.Value = kind.OffCPU, wait
			b.Add(s)
		}
	}
	add()
	got := map[uint32]uint64{}
	for _, p := range b.Collect() {
		for _, process := range p.Processes {
			got[process.PID] += process.Value
		}
	}
	if want := map[uint32]uint64{7: 2e7, 8: 12e9}; !maps.Equal(got, want) {
		t.Errorf("processes have %v, want %v", got, want)
	}
	add()
	recorded := pprof.NewBuilder(pprof.Options{Kind: kind.Wall, Count: true, Period: 1e7})
	b.CollectInto(recorded, time.Second)
	for _, s := range recorded.Profile().Sample {
		if largest := s.NumLabel[pprof.Largest]; s.Value[0] != 5 || len(largest) != 1 || largest[0] != 9e9 {
			t.Errorf("a stack of %v has a sample of %v at most, want 9 s", s.Value, largest)
		}
	}
}
