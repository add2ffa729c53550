package trie

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
)

// TestRoom: a tree is the same whether there was room for its nodes, for some of them, or for none, and after the room
// was given back.
func TestRoom(t *testing.T) {
	p := random(500, 100, 20)
	all, o := fold(t, nil, p), Options{Share: -1, MaxNodes: 1 << 30}
	want := render(treeOf(t, o, p))
	b := NewBuilder(nil)
	for _, nodes := range []int{0, 100, all.Nodes(), 10 * all.Nodes(), 10} {
		b.Grow(nodes, nodes/2)
		if _, err := b.AddFolded(all, Choice{}); err != nil {
			t.Fatal(err)
		}
		if got := render(b.Tree(o)); got != want {
			t.Errorf("with room for %d nodes the tree is another one", nodes)
		}
		if b.Reset(); nodes > 1000 {
			b.Release()
		}
	}
	b.Release() // more than once is no harm
}

// TestReset: what is made in the memory of what was there before is what an empty one makes.
func TestReset(t *testing.T) {
	profiles := []*profile.Profile{random(3000, 300, 30), partMaker().Profile, random(200, 60, 9), newMaker().Profile}
	b := NewBuilder(nil)
	s := b.NewSums(DefaultMaxFunctions)
	for i, p := range profiles {
		f, fresh, freshSums := fold(t, nil, p), NewBuilder(nil), NewSums(DefaultMaxFunctions)
		for _, to := range []*Builder{b, fresh} {
			if _, err := to.AddFolded(f, Choice{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, to := range []*Sums{s, freshSums} {
			if i == 1 {
				to.Search("main")
			}
			if _, err := to.Add(f, Choice{}); err != nil {
				t.Fatal(err)
			}
		}
		want, got := encode(t, fresh.Tree(Options{Share: -1})), encode(t, b.Tree(Options{Share: -1}))
		if !bytes.Equal(got, want) {
			t.Errorf("profile %d: got %.300s, want %.300s", i, got, want)
		}
		if !slices.Equal(s.Functions(), freshSums.Functions()) || s.Found() != freshSums.Found() {
			t.Errorf("profile %d: other functions, or %d found, want %d", i, s.Found(), freshSums.Found())
		}
		b.Reset()
		s.Reset()
	}
}
