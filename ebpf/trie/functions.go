package trie

// Function is what a tree has of one function in one binary, with all its places.
type Function struct {
	Name   string `json:"name"`
	Binary string `json:"binary"` // path of the file that the code is in; "" for none
	Kind   string `json:"kind"`
	Self   int64  `json:"self"`
	Total  int64  `json:"total"` // a function that calls itself counts once
}

// Functions returns the functions of all that was added, in no particular order. Builds of a binary, and inlined
// copies, are one function; its kind is that of the copy that was seen first.
func (b *Builder) Functions() []Function {
	of, n := b.functions()
	sums := newTally(of, n)
	children := b.children()
	var visit func(at uint32)
	visit = func(at uint32) {
		node := &b.nodes[at]
		outermost := sums.enter(node)
		for _, child := range children[at] {
			visit(child)
		}
		sums.leave(node, outermost)
	}
	for _, child := range children[0] {
		visit(child)
	}
	out := make([]Function, n)
	for i := range b.frames {
		f, to := &b.frames[i], &out[of[i]]
		if to.Kind == "" {
			*to = Function{f.name, f.mapping.file, f.kind.String(), sums.self[of[i]], sums.total[of[i]]}
		}
	}
	return out
}
