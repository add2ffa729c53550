package trie

import "testing"

// TestRoom: a tree is the same whether there was room for its nodes, for some of them, or for none, and after the room
// was given back.
func TestRoom(t *testing.T) {
	p := random(500, 100, 20)
	all, o := fold(t, nil, p), Options{Share: -1, MaxNodes: 1 << 30}
	want := render(treeOf(t, o, p))
	b := NewBuilder(nil)
	for _, nodes := range []int{0, 100, all.Nodes(), 10 * all.Nodes(), 10} {
		b.Grow(nodes)
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
