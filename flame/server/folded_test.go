package server

import (
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// TestProfilesAreReadOnce: answers for other times, parts of them and other samples read no profile again, and all are
// correct.
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
	}{{all, 33, 3}, {late, 11, 3}, {all, 33, 3}, {ofY, 30, 3}} {
		picked := page.pickSelected(test.selection)
		m := tree.NewMerge()
		_, total, err := page.readProfiles(picked, test.selection, anyOf, m.Add)
		require.NoError(t, err)
		require.Equal(t, test.total, total)
		require.Equal(t, test.total, m.Total())
		require.Len(t, page.folds.views, test.folded)
	}
	page.DropViews()
	require.Empty(t, page.folds.views)
	page.folds.maxBytes = 1
	m := tree.NewMerge()
	_, total, err := page.readProfiles(page.pickSelected(all), all, anyOf, m.Add)
	require.NoError(t, err)
	require.Equal(t, []int64{33, 33}, []int64{total, m.Total()})
	require.Len(t, page.folds.views, 1, "the newest is kept, whatever its size")
}

// TestFoldedAsTheyCome: profiles that are handed over decoded are not read again, and folded data is dropped before
// profiles.
func TestFoldedAsTheyCome(t *testing.T) {
	end := time.Unix(1_700_000_000, 0)
	page := New(Options{})
	for i := range 3 {
		at := end.Add(time.Duration(i-2) * time.Second)
		data := testProfile(t, at, testStack{comm: "x", value: 1, frames: []string{"leaf", "main"}})
		p, err := profile.ParseData(data)
		require.NoError(t, err)
		page.Add(at.Add(-time.Second), at, []Profile{{Data: data, Pprof: p}})
	}
	all := selection{target: allTargets, to: end.UnixMilli()}
	total := func() int64 {
		_, total, err := page.readProfiles(page.pickSelected(all), all, anyOf, tree.NewMerge().Add)
		require.NoError(t, err)
		return total
	}
	require.EqualValues(t, 3, total())
	require.Empty(t, page.folds.views)
	for _, k := range page.history.allProfiles() {
		require.Nil(t, k.Pprof)
		require.NotNil(t, k.folded.Load())
	}
	bytes := page.Bytes()
	page.SetMaxBytes(bytes - 1)
	require.EqualValues(t, 3, total())
	require.Len(t, page.folds.views, 1, "the oldest one was read")
	require.Len(t, page.history.allProfiles(), 3)
	require.Equal(t, bytes-page.history.allProfiles()[2].foldedSize(), page.Bytes())
}

// TestChoice: a selection gives the same result for the folded profile as for the profile itself.
func TestChoice(t *testing.T) {
	at := time.Now()
	one := threadProfile(t, at)
	k := &kept{Profile: one}
	read := func() *profile.Profile {
		p, err := profile.ParseData(one.Data)
		require.NoError(t, err)
		return p
	}
	f, err := tree.Fold(read(), flameName)
	require.NoError(t, err)
	var mapping *profile.Mapping
	for _, m := range read().Mapping {
		if m.File != "" {
			mapping = m
		}
	}
	of := func(change func(*selection)) (s selection) {
		change(&s)
		return s
	}
	some := 0
	for name, s := range map[string]selection{
		"all": {}, "process": {comm: "fio"}, "no process": {comm: "bash"}, "pid": {pid: 4711},
		"both":   {comm: "fio", pid: 4712},
		"thread": of(func(s *selection) { s.thread = "aio" }), "focus": of(func(s *selection) { s.focus = "submit" }),
		"ignore":           of(func(s *selection) { s.ignore = "filemap_read" }),
		"focus and ignore": of(func(s *selection) { s.focus, s.ignore = "sys|main", "memcpy" }),
		"focus on a file":  of(func(s *selection) { s.focus = "/fio$" }),
		"grouped":          {root: "pid"}, "grouped by what is not there": {root: "nothing"},
		"grouped thread": of(func(s *selection) { s.root, s.thread = "pid", "main" }),
		"build":          {exe: mapping.File, build: mapping.BuildID},
	} {
		parts, err := decode([]*kept{k}, s)
		require.NoError(t, err)
		if s.root != "" {
			addRoots(parts[0], s.root)
		}
		want, got := tree.NewBuilder(flameName), tree.NewMerge()
		require.NoError(t, want.Add(parts[0]))
		added, err := got.Add(f, s.choice())
		require.NoError(t, err)
		require.Equal(t, want.Total(), added.Total, name)
		require.Equal(t, want.Tree(tree.Options{Share: -1}), got.Tree(tree.Options{Share: -1}), name)
		if added.Total > 0 {
			some++
		}
		sums := tree.NewSums(tree.DefaultMaxFunctions)
		added, err = sums.Add(f, s.choice())
		require.NoError(t, err)
		require.Equal(t, want.Total(), added.Total, name)
		self := int64(0)
		for _, fn := range sums.Functions() {
			self += fn.Self
		}
		require.Equal(t, want.Total(), self, name)
	}
	require.GreaterOrEqual(t, some, 12, "selections have samples")
}
