// Package dag is a directed graph that keeps the order in which its nodes were added, and finds its
// cycles.
package dag

import (
	"slices"
	"sort"
)

// Graph is a directed graph. Nodes keep the order in which they were added, and all results follow
// that order, so that equal input gives equal output. It may contain cycles; Order requires a graph
// without cycles. Concurrent reads are safe. Callers must not change the returned slices.
type Graph[N comparable] struct {
	nodes        []N
	position     map[N]int
	dependencies map[N][]N // nodes that a node needs
	dependants   map[N][]N // nodes that need a node
}

// New returns an empty graph.
func New[N comparable]() *Graph[N] {
	return &Graph[N]{
		position:     map[N]int{},
		dependencies: map[N][]N{},
		dependants:   map[N][]N{},
	}
}

// Add adds a node that is not in the graph yet.
func (g *Graph[N]) Add(n N) {
	g.position[n] = len(g.nodes)
	g.nodes = append(g.nodes, n)
}

// Connect adds the dependency of from on to. A repeated call has no effect.
func (g *Graph[N]) Connect(from, to N) {
	if slices.Contains(g.dependencies[from], to) {
		return
	}
	g.dependencies[from] = append(g.dependencies[from], to)
	g.dependants[to] = append(g.dependants[to], from)
}

// Nodes returns all nodes.
func (g *Graph[N]) Nodes() []N { return g.nodes }

// Dependencies returns the nodes that n depends on directly.
func (g *Graph[N]) Dependencies(n N) []N { return g.dependencies[n] }

// Dependants returns the nodes that depend directly on n.
func (g *Graph[N]) Dependants(n N) []N { return g.dependants[n] }

// SelfReferences returns the nodes that depend directly on themselves.
func (g *Graph[N]) SelfReferences() []N {
	var found []N
	for _, n := range g.nodes {
		if slices.Contains(g.dependencies[n], n) {
			found = append(found, n)
		}
	}
	return found
}

// Order returns all nodes, each after the nodes that it depends on. The graph must not contain a
// cycle.
func (g *Graph[N]) Order() []N {
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

// Cycles returns the sets of two or more nodes that all depend on each other: the strongly
// connected components, found by Tarjan's algorithm (SIAM J. Comput. 1(2), 1972).
func (g *Graph[N]) Cycles() [][]N {
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
	graph   *Graph[N]
	index   map[N]int // order of first visit
	low     map[N]int // the earliest node on the stack that is known to be reachable
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

// pop removes the component whose first visited node is root from the stack.
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
