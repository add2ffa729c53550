package tree

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
)

// partMaker has a recursive function, and a function with two callers.
func partMaker() *maker {
	m := newMaker()
	for _, s := range []struct {
		value int64
		stack []string
	}{
		{5, []string{"a:main", "a:f", "b:leaf"}},
		{3, []string{"a:main", "a:g", "b:leaf"}},
		{2, []string{"a:main", "a:f", "a:g", "a:f"}},
		{7, []string{"a:main"}},
	} {
		m.sample(s.value, s.stack...)
	}
	return m
}

// stacksOf returns the nodes of a tree as paths with their totals.
func stacksOf(t *Tree) (out []string) {
	var way []string
	for i, frame := range t.Nodes.Frame[1:] {
		way = append(way[:t.Nodes.Depth[i+1]-1], t.Strings[t.Frames.Name[frame]])
		out = append(out, fmt.Sprint(way, t.Nodes.Total[i+1]*t.Scale))
	}
	slices.Sort(out)
	return out
}

func checkStacks(t *testing.T, b *Builder, want ...string) {
	t.Helper()
	if err := b.Add(partMaker().Profile); err != nil {
		t.Fatal(err)
	}
	if got := stacksOf(b.Tree(Options{})); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCallers(t *testing.T) {
	checkStacks(t, NewCallers(nil, "leaf", ""),
		"[leaf f main] 5", "[leaf f] 5", "[leaf g main] 3", "[leaf g] 3", "[leaf] 8")
	checkStacks(t, NewCallers(nil, "f", ""), "[f main] 7", "[f] 7")
	checkStacks(t, NewCallers(nil, "nothing", ""))
}

func TestCallees(t *testing.T) {
	checkStacks(t, NewCallees(nil, "f", ""), "[f g f] 2", "[f g] 2", "[f leaf] 5", "[f] 7")
	checkStacks(t, NewCallees(nil, "nothing", ""))
	checkStacks(t, NewCallees(nil, "leaf", "b"), "[leaf] 8")
	checkStacks(t, NewCallees(nil, "leaf", "a"))
}

func checkBelow(t *testing.T, node PathID, want ...string) {
	t.Helper()
	tree := mergeOf(t, partMaker().Profile).TreeBelow(node, Options{})
	if tree == nil {
		tree = &Tree{Nodes: Nodes{Frame: []int32{-1}}}
	}
	if got := stacksOf(tree); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBelow(t *testing.T) {
	f := RootPath.Child("main", "a").Child("f", "a")
	checkBelow(t, f, "[main f g f] 2", "[main f g] 2", "[main f leaf] 5", "[main f] 7", "[main] 7")
	checkBelow(t, f.Child("leaf", "b"), "[main f leaf] 5", "[main f] 5", "[main] 5")
	checkBelow(t, f.Child("leaf", "a"))
}

// TestBelowShowsWhatWasFolded checks that a part has nodes that the whole tree folds, with the same totals and scale,
// and that its functions have the values of the whole profile.
func TestBelowShowsWhatWasFolded(t *testing.T) {
	m := newMaker()
	for i := range 100 {
		m.sample(10, "a:main", "a:wide", fmt.Sprintf("a:small%d", i%50), fmt.Sprintf("a:leaf%d", i))
		m.sample(5, "a:main", fmt.Sprintf("a:leaf%d", i))
		m.sample(1000, "a:main", fmt.Sprintf("a:large%d", i))
	}
	few := Options{MaxNodes: 200, Enough: 200}
	all := mergeOf(t, m.Profile).Tree(few)
	wide := RootPath.Child("main", "a").Child("wide", "a")
	part := mergeOf(t, m.Profile).TreeBelow(wide, few)
	if all.Omitted.Nodes != 250 || part.Omitted.Nodes != 0 {
		t.Errorf("folded %d nodes of all, %d of the part; want 250 and none", all.Omitted.Nodes, part.Omitted.Nodes)
	}
	if part.Total*part.Scale != 1000 || part.Scale != all.Scale {
		t.Errorf("the part has %d of scale %d, want 1000 in all of scale %d", part.Total, part.Scale, all.Scale)
	}
	var self int64
	for _, value := range part.Nodes.Self {
		self += value
	}
	if self != part.Total || part.Nodes.Total[0] != part.Total {
		t.Errorf("nodes have %d and the root %d of %d", self, part.Nodes.Total[0], part.Total)
	}
	leaf := slices.Index(part.Strings, "leaf7")
	at := slices.Index(part.Frames.Name, int32(leaf))
	if at < 0 || part.Frames.Self[at]*part.Scale != 15 || part.Functions.Total[part.Frames.Of[at]]*part.Scale != 15 {
		t.Errorf("leaf7 has 15 everywhere: frame %d of %v", at, part.Frames.Self)
	}
}

// TestPathID compares PathID with the standard library's FNV-1a.
func TestPathID(t *testing.T) {
	h := fnv.New64a()
	h.Write([]byte("main\x00a\x00f\x00\x00"))
	id := RootPath.Child("main", "a").Child("f", "")
	if id != PathID(h.Sum64()) {
		t.Errorf("got %s, want %016x", id, h.Sum64())
	}
	if back, err := ParsePathID(id.String()); back != id || err != nil {
		t.Errorf("%s is read as %s, %v", id, back, err)
	}
	for _, bad := range []string{"", "1", "+123456789abcdef", "0x00000000000000", "00000000000000000"} {
		if _, err := ParsePathID(bad); err == nil {
			t.Errorf("%q is taken for a node", bad)
		}
	}
}
