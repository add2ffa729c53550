package profile

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/flame/kind"
)

// TestKinds checks that equal stacks of different kinds are in separate profiles, with the values and the __name__ of
// the kind, and that the value of a sample is its own value or else the period of its kind.
func TestKinds(t *testing.T) {
	b := newBuilder(t, 100)
	b.options.Periods[kind.PageFaults] = 64
	b.startAggregate()
	for _, of := range []struct {
		kind  kind.Kind
		value uint64
	}{{kind.CPU, 0}, {kind.PageFaults, 0}, {kind.PageFaults, 3}, {kind.OffCPU, 5e6}, {kind.OffCPU, 7e6}} {
		s := sample(7, clock.Monotonic())
		s.Kind, s.Value, s.Target = of.kind, of.value, target.Of(map[string]string{"__name__": "mine"})
		b.Add(s)
	}
	got := map[string]Profile{}
	for _, p := range b.Collect() {
		if got[p.Labels["__name__"]].Pprof != nil || len(p.Pprof.Sample) != 1 {
			t.Fatalf("%d samples in one of the profiles of %s", len(p.Pprof.Sample), p.Labels["__name__"])
		}
		got[p.Labels["__name__"]] = p
	}
	for _, want := range []struct {
		name    string
		kind    kind.Kind
		samples uint64
		period  int64
		types   []*profile.ValueType
		values  []int64
	}{
		{"mine", kind.CPU, 1, 10e6, []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}, []int64{10e6}},
		{"offcpu", kind.OffCPU, 2, 0, []*profile.ValueType{{Type: "offcpu", Unit: "nanoseconds"}}, []int64{12e6}},
		{"page_faults", kind.PageFaults, 2, 64,
			[]*profile.ValueType{{Type: "faults", Unit: "count"}, {Type: "space", Unit: "bytes"}},
			[]int64{67, 67 * int64(os.Getpagesize())}},
	} {
		p := got[want.name]
		if p.Pprof == nil || p.Kind != want.kind || p.Samples != want.samples || p.Pprof.Period != want.period ||
			!reflect.DeepEqual(p.Pprof.SampleType, want.types) || !reflect.DeepEqual(p.Pprof.Sample[0].Value, want.values) ||
			!reflect.DeepEqual(p.Pprof.PeriodType, want.types[0]) {
			t.Errorf("the profile %s is %+v", want.name, p)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d profiles, want 3", len(got))
	}
}

// TestWakerLabel checks that samples have the waker as a label and are distinguished by it, even without the other
// labels. Samples without a waker have no label.
func TestWakerLabel(t *testing.T) {
	b := newBuilder(t, 100)
	b.options.NoWaitLabel, b.options.NoStateLabel = true, true
	b.startAggregate()
	for i, by := range []*kernel.Waker{
		{ByPID: 7, ByTID: 8, ByComm: "worker-1", ByProcess: "mine"},
		{ByPID: 9, ByTID: 9, ByComm: "writer-1", ByProcess: "theirs"},
		nil,
	} {
		s := sample(7, clock.Monotonic())
		s.Kind, s.Value, s.Waker = kind.OffCPU, uint64(i+1), by
		s.Thread = &kernel.Thread{State: kernel.Sleeping, Call: kernel.NoCall}
		b.Add(s)
		b.Add(s)
	}
	got := map[string]int64{}
	for _, p := range b.Collect() {
		for _, s := range p.Pprof.Sample {
			by := strings.Join(s.Label[LabelWaker], " ")
			if got[by] != 0 || len(s.Label[LabelState]) > 0 || len(s.Label[LabelWait]) > 0 {
				t.Errorf("a sample has the labels %v", s.Label)
			}
			got[by] += s.Value[0]
		}
	}
	if want := map[string]int64{"worker-1": 2, "theirs": 4, "": 6}; !reflect.DeepEqual(got, want) {
		t.Errorf("by waker %v, want %v", got, want)
	}
}
