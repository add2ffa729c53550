package tree

import (
	"fmt"
	"testing"
)

// TestFoldedBase checks that the nodes of a comparison keep their own share of the base when other nodes are folded.
func TestFoldedBase(t *testing.T) {
	base, fresh := newMaker(), newMaker()
	for i := range 100 {
		base.sample(1, "a:main", fmt.Sprintf("a:small%d", i))
		base.sample(1000, "a:main", fmt.Sprintf("a:large%d", i%5))
		fresh.sample(500, "a:main", fmt.Sprintf("a:large%d", i%5))
	}
	b := NewDiff(nil, "", "")
	if err := b.AddBase(base.Profile, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(fresh.Profile); err != nil {
		t.Fatal(err)
	}
	tree := b.Tree(Options{Enough: 10})
	n := &tree.Nodes
	if tree.Omitted.Nodes != 100 || len(n.Frame) != 8 {
		t.Fatalf("%d nodes are folded, %d shown", tree.Omitted.Nodes, len(n.Frame))
	}
	var self int64
	for i, frame := range n.Frame {
		self += n.BaseSelf[i] * tree.Scale
		want := map[int64]int64{30_000: 20_000, 100: 100, 150_100: 100_100}[n.Total[i]*tree.Scale]
		if got := n.BaseTotal[i] * tree.Scale; got != want {
			t.Errorf("node %d (frame %d) has %d of the base, want %d", i, frame, got, want)
		}
	}
	if self != 100_100 {
		t.Errorf("nodes have %d of the base, want 100100", self)
	}
}

// TestDeepRecursion checks that a stack too deep for the limit is folded at its deep end, and takes no room from other
// stacks.
func TestDeepRecursion(t *testing.T) {
	m := newMaker()
	deep := []string{"a:main"}
	for i := range 3000 {
		deep = append(deep, fmt.Sprintf("a:f%d", i%7))
	}
	m.sample(590, append(deep, "a:leaf")...)
	m.sample(300, "a:main", "a:other", "a:worker", "a:busy")
	m.sample(110, "a:main", "a:idle")
	tree := treeOf(t, Options{MaxNodes: 2000, Enough: 1000}, m.Profile)
	n := &tree.Nodes
	if len(n.Frame) > 2001 || len(n.Frame) < 1900 {
		t.Errorf("%d nodes are shown, there is room for 2000", len(n.Frame))
	}
	shown := map[string]bool{}
	for i, frame := range n.Frame {
		if frame >= 0 {
			shown[tree.Strings[tree.Frames.Name[frame]]] = true
		} else if frame < -1 && n.Depth[i] < 1900 {
			t.Errorf("%d nodes are folded at depth %d, with %d of %d", -1-frame, n.Depth[i], n.Total[i], n.Total[0])
		}
	}
	for _, name := range []string{"other", "worker", "busy", "idle"} {
		if !shown[name] {
			t.Errorf("%s is not shown", name)
		}
	}
}
