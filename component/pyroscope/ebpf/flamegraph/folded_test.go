package flamegraph

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/trie"
)

// TestProfilesAreReadOnce: answers of other times, of a part of them and of other samples read no profile again, and
// all are right.
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

// TestFoldedAsTheyCome: profiles that are handed over decoded need not be read, and what is folded goes before profiles
// do.
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
		b := trie.NewBuilder(nil)
		_, total, err := page.read(page.pick(all), all, b)
		require.NoError(t, err)
		return total
	}
	require.EqualValues(t, 3, total())
	require.Empty(t, page.folds.views)
	for _, k := range page.history.all() {
		require.Nil(t, k.Pprof)
		require.NotNil(t, k.folded.Load())
	}
	bytes := page.Bytes()
	page.SetMaxBytes(bytes - 1)
	require.EqualValues(t, 3, total())
	require.Len(t, page.folds.views, 1, "the oldest one was read")
	require.Len(t, page.history.all(), 3)
	require.Equal(t, bytes-page.history.all()[2].foldedSize(), page.Bytes())
}

// TestChoice: of what is folded, a selection has the same as of the profile itself.
func TestChoice(t *testing.T) {
	at := time.Now()
	one := threadProfile(t, at)
	k := &kept{Profile: one}
	read := func() *profile.Profile {
		p, err := profile.ParseData(one.Data)
		require.NoError(t, err)
		return p
	}
	f, err := trie.Fold(read(), flameName)
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
		want, got := trie.NewBuilder(flameName), trie.NewBuilder(nil)
		require.NoError(t, want.Add(parts[0]))
		added, err := got.AddFolded(f, s.choice())
		require.NoError(t, err)
		require.Equal(t, want.Total(), added.Total, name)
		require.Equal(t, want.Tree(trie.Options{Share: -1}), got.Tree(trie.Options{Share: -1}), name)
		if added.Total > 0 {
			some++
		}
		sums := trie.NewSums(trie.DefaultMaxFunctions)
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

// TestExpected: a quiet moment at the end does not say how many nodes there will be. Profiles on disk count as the
// others do, and of a process counts what it has.
func TestExpected(t *testing.T) {
	processes := []Process{{Comm: "x", Samples: 75}, {Comm: "y", Samples: 25}}
	busy, quiet := &kept{}, &kept{}
	onDisk := &kept{Profile: Profile{Samples: 100, Processes: processes}}
	for k, functions := range map[*kept]int{busy: 298, quiet: 1} {
		stack := testStack{comm: "x", value: 1}
		for i := range functions {
			stack.frames = append(stack.frames, fmt.Sprint("f", i))
		}
		read, err := profile.ParseData(testProfile(t, time.Unix(1_700_000_000, 0), stack))
		require.NoError(t, err)
		f, err := trie.Fold(read, nil)
		require.NoError(t, err)
		require.Equal(t, functions+1, f.Nodes(), "with the process")
		require.Equal(t, functions+1, f.Frames())
		k.Profile = onDisk.Profile
		k.folded.Store(f)
	}
	x := selection{comm: "x"}
	for name, test := range map[string]struct {
		of            selection
		entries       []*kept
		nodes, frames int
	}{
		"one is quiet": {selection{}, []*kept{busy, busy, quiet}, 400, 400},
		"one is not":   {selection{}, []*kept{quiet, quiet, busy, busy, busy, busy, busy, busy}, 1198, 448},
		"on disk":      {selection{}, []*kept{busy, onDisk, busy, quiet}, 533, 448},
		"all on disk":  {selection{}, []*kept{onDisk}, 0, 0},
		"a process":    {x, []*kept{busy, busy, quiet}, 300, 300},
		"a thread":     {selection{filter: filter{thread: "t"}}, []*kept{busy}, 0, 0},
	} {
		nodes, frames := test.of.expected(test.entries)
		require.Equal(t, []int{test.nodes, test.frames}, []int{nodes, frames}, name)
	}
}
