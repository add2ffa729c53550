package flamegraph

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/trie"
)

// TestProfilesAreReadOnce: answers of other times and of a part of them read no profile again, those of other samples
// do, and all are right.
func TestProfilesAreReadOnce(t *testing.T) {
	page, end := New(Options{}), time.Unix(1_700_000_000, 0)
	for i := range 3 {
		at := end.Add(time.Duration(i-2) * time.Second)
		page.Add(at.Add(-time.Second), at, []Profile{{Data: testProfile(t, at,
			testStack{comm: "x", value: 1, frames: []string{"leaf", "main"}},
			testStack{comm: "y", value: 10, frames: []string{"leaf", "other"}})}})
	}
	all := selection{target: allTargets, to: end.UnixMilli()}
	late := all
	late.from = end.Add(-time.Second).UnixMilli()
	ofY := all
	ofY.comm = "y"
	for _, test := range []struct {
		selection
		total  int64
		folded int // profiles that are kept, after it
	}{{all, 33, 3}, {late, 11, 3}, {all, 33, 3}, {ofY, 30, 6}} {
		picked := page.pick(test.selection)
		b := trie.NewBuilder(nil)
		_, total, err := page.read(picked, test.selection, b)
		require.NoError(t, err)
		require.Equal(t, test.total, total)
		require.Equal(t, test.total, b.Total())
		require.Len(t, page.folds.views, test.folded)
	}
	page.DropViews()
	require.Empty(t, page.folds.views)
	page.folds.maxBytes = 1
	b := trie.NewBuilder(nil)
	_, total, err := page.read(page.pick(all), all, b)
	require.NoError(t, err)
	require.Equal(t, []int64{33, 33}, []int64{total, b.Total()})
	require.Len(t, page.folds.views, 1, "the newest is kept, whatever its size")
}
