package profile

import (
	"math"
	"os"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/demangle"
)

// TestNamedPlaces checks that later rounds reuse the names of a round, until names may have changed, or are shown in
// another way.
func TestNamedPlaces(t *testing.T) {
	tracker := process.NewTracker(process.NewLocalStore(), procfs.Default, &filework.Pool{}, nil)
	t.Cleanup(tracker.Close)
	pid := uint32(os.Getpid())
	tracker.ScanProcess(pid)
	options := Options{SampleRate: 99, Comm: CommNone}
	b, err := New(options, tracker, &filework.Pool{})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	view := tracker.At(pid, math.MaxUint64)
	raw := &kernel.Sample{PID: pid, Outcome: unwind.Complete}
	var want []string // names from the runtime
	for _, f := range []any{TestNamedPlaces, TestTimestamps, newNamer} {
		pc := uint64(reflect.ValueOf(f).Pointer())
		exe, vaddr := view.Locate(pc)
		raw.User = append(raw.User, kernel.Frame{Vaddr: vaddr, Exe: exe})
		want = append(want, runtime.FuncForPC(uintptr(pc)).Name())
	}
	read := 0 // number of addresses whose names were read
	collect := func() {
		raw.Time = clock.Monotonic()
		b.Add(&sampler.Sample{Sample: raw, Target: anyTarget(), ProcessComm: "test"})
		before := b.names.symbolizer.Stats().Frames
		profiles := b.Collect()
		read = b.names.symbolizer.Stats().Frames - before
		require.Len(t, profiles, 1)
		var got []string
		for _, l := range profiles[0].Pprof.Sample[0].Location {
			got = append(got, l.Line[len(l.Line)-1].Function.Name)
		}
		require.Equal(t, want, got)
	}
	first := func() *namedPlace { return b.names.places.places[placeOf(raw.User[0])] }
	collect()
	require.Equal(t, len(want), read)
	require.Len(t, b.names.places.places, len(want))
	named := first()
	collect()
	require.Zero(t, read)
	require.Same(t, named, first())

	b.Forget([]unwind.ExeID{raw.User[0].Exe})
	collect()
	require.NotSame(t, named, first(), "the names may be others")
	require.Len(t, b.names.places.places, len(want))

	named = first()
	options.Demangle = demangle.Full
	u, err := b.Prepare(options)
	require.NoError(t, err)
	u.Apply()
	collect()
	require.NotSame(t, named, first(), "they are shown in another way")
}

// TestNamedPlacesAreBounded checks that places not used recently are dropped if there are too many.
func TestNamedPlacesAreBounded(t *testing.T) {
	p := newNamedPlaces()
	fill := func(from, count int) {
		p.begin(naming{}, nil)
		for i := range count {
			f := kernel.Frame{Exe: unwind.ExeID(1 + i%7), Vaddr: uint64(from + i)}
			if _, ok := p.getLocation(f); !ok {
				p.putLocation(f, userLocation{})
			}
		}
		p.endRound()
	}
	for range 10 {
		fill(0, 1000)
	}
	require.Len(t, p.places, 1000)
	for round := range 20 {
		fill(7*1000*(round+1), 4000)
		require.LessOrEqual(t, len(p.places), placeRounds*4000+maxNamedPlaces)
	}
	_, ok := p.getLocation(kernel.Frame{Exe: 1})
	require.False(t, ok, "used in the first rounds alone")
	fill(1_000_000, 3*maxNamedPlaces)
	require.Empty(t, p.places)
}
