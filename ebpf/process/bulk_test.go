package process

import (
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestPagesAround: after walks have missed some pages of a file, the pages around the next missed page are built with
// it. They are the same pages as when they are built one by one.
func TestPagesAround(t *testing.T) {
	for _, full := range []bool{false, true} {
		tracker, store := newTracker(t, procfs.Default)
		require.NoError(t, tracker.Scan())
		view := tracker.At(uint32(os.Getpid()), math.MaxUint64)
		addr := uint64(reflect.ValueOf(TestPagesAround).Pointer())
		exe, vaddr := view.Locate(addr)
		e := tracker.Executable(exe)
		require.NotNil(t, e)
		d := e.image.Load().directory
		store.full = full
		miss := func(page uint64) {
			_, outcome := view.Rule(addr - vaddr + page<<d.Shift)
			require.Equal(t, unwind.Unset, outcome)
		}
		resident := func() int { return len(store.pages[d]) }

		first := uint64(d.First) + 2*manyAround
		first -= first % manyAround
		for n := range uint64(someMissed - 1) { // far from each other
			miss(first + n*fewAround)
			require.EqualValues(t, n+1, resident(), "a file that is hardly missed")
		}
		before := resident()
		require.False(t, tracker.BuildAhead())
		miss(first + someMissed*fewAround + 3)
		require.Equal(t, before+1, resident(), "who waits for a rule does not wait for more")
		if require.True(t, tracker.BuildAhead()); full {
			require.Equal(t, before+1, resident(), "there is no memory for pages that no walk wants")
			continue
		}
		require.Equal(t, before+fewAround, resident())
		for page := first + someMissed*fewAround; page < first+(someMissed+1)*fewAround; page++ {
			p, err := e.image.Load().rows.Page(page, d.Shift)
			require.NoError(t, err)
			require.Equal(t, p, store.pages[d][page])
		}
		miss(first + someMissed*fewAround + 4)
		require.Equal(t, before+fewAround, resident(), "it is there")

		e.image.Load().missed = manyMissed
		miss(first + 5*manyAround + 7)
		require.True(t, tracker.BuildAhead())
		require.False(t, tracker.BuildAhead())
		require.Equal(t, before+fewAround+manyAround, resident())

		miss(first + 6*manyAround + 7)
		e.image.Load().close()
		require.True(t, tracker.BuildAhead())
		require.Equal(t, before+fewAround+manyAround+1, resident(), "its directory may be another's")
	}
}
