package river

import "sort"

// dag is a directed graph. Nodes keep the order in which they were added, and
// everything that the graph answers follows that order, so that equal input
// gives equal output. It may hold cycles until someone has looked for them.
type dag[N comparable] struct {
	nodes        []N
	position     map[N]int
	dependencies map[N][]N // what a node needs
	dependants   map[N][]N // who needs a node
}

func newDAG[N comparable]() *dag[N] {
	return &dag[N]{
		position:     map[N]int{},
		dependencies: map[N][]N{},
		dependants:   map[N][]N{},
	}
}

// add adds a node that is not in the graph yet.
func (g *dag[N]) add(n N) {
	g.position[n] = len(g.nodes)
	g.nodes = append(g.nodes, n)
}

// connect notes that from depends on to. Saying it twice changes nothing.
func (g *dag[N]) connect(from, to N) {
	for _, known := range g.dependencies[from] {
		if known == to {
			return
		}
	}
	g.dependencies[from] = append(g.dependencies[from], to)
	g.dependants[to] = append(g.dependants[to], from)
}

// selfReferences returns the nodes that depend directly on themselves.
func (g *dag[N]) selfReferences() []N {
	var found []N
	for _, n := range g.nodes {
		for _, d := range g.dependencies[n] {
			if d == n {
				found = append(found, n)
			}
		}
	}
	return found
}

// order returns every node after those that it depends on. The graph must not
// hold a cycle.
func (g *dag[N]) order() []N {
	ordered := make([]N, 0, len(g.nodes))
	seen := make(map[N]bool, len(g.nodes))
	var visit func(n N)
	visit = func(n N) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, d := range g.dependencies[n] {
			visit(d)
		}
		ordered = append(ordered, n)
	}
	for _, n := range g.nodes {
		visit(n)
	}
	return ordered
}

// cycles returns the sets of two and more nodes that all depend on each other:
// the strongly connected components, found by Tarjan's algorithm (SIAM J.
// Comput. 1(2), 1972).
func (g *dag[N]) cycles() [][]N {
	t := tarjan[N]{graph: g, index: map[N]int{}, low: map[N]int{}, onStack: map[N]bool{}}
	for _, n := range g.nodes {
		if _, visited := t.index[n]; !visited {
			t.visit(n)
		}
	}
	sort.Slice(t.found, func(i, j int) bool { return g.position[t.found[i][0]] < g.position[t.found[j][0]] })
	return t.found
}

type tarjan[N comparable] struct {
	graph   *dag[N]
	index   map[N]int // when a node was first visited
	low     map[N]int // the earliest node known to be reachable from it and on the stack
	onStack map[N]bool
	stack   []N
	found   [][]N
}

func (t *tarjan[N]) visit(n N) {
	t.index[n] = len(t.index)
	t.low[n] = t.index[n]
	t.stack = append(t.stack, n)
	t.onStack[n] = true

	for _, d := range t.graph.dependencies[n] {
		if _, visited := t.index[d]; !visited {
			t.visit(d)
			t.low[n] = min(t.low[n], t.low[d])
		} else if t.onStack[d] {
			t.low[n] = min(t.low[n], t.index[d])
		}
	}
	if t.low[n] == t.index[n] {
		t.pop(n)
	}
}

// pop takes the component whose first visited node is root off the stack.
func (t *tarjan[N]) pop(root N) {
	var members []N
	for {
		last := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.onStack[last] = false
		members = append(members, last)
		if last == root {
			break
		}
	}
	if len(members) > 1 {
		sort.Slice(members, func(i, j int) bool { return t.graph.position[members[i]] < t.graph.position[members[j]] })
		t.found = append(t.found, members)
	}
}
