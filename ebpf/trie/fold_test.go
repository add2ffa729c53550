package trie

import (
	"fmt"
	"testing"
)

// TestFoldedBase: of two profiles that are compared, nodes have their own part of the base when others are folded.
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
