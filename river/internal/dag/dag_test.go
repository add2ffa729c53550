package dag

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parse reads "a>b c>d e": a depends on b, c on d, e has no dependencies. Nodes are added in the
// order of their first appearance.
func parse(text string) *Graph[string] {
	g := New[string]()
	add := func(n string) {
		if _, known := g.position[n]; !known {
			g.Add(n)
		}
	}
	for _, word := range strings.Fields(text) {
		from, to, edge := strings.Cut(word, ">")
		add(from)
		if edge {
			add(to)
			g.Connect(from, to)
		}
	}
	return g
}

func TestOrder(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"a b c":                   "a b c",
		"a>b b>c":                 "c b a",
		"a>c b>c":                 "c a b",
		"a>b a>c b>d c>d":         "d b c a",
		"x a>x b>x x>y":           "y x a b",
		"a>b a>b":                 "b a",
		"first a>last b>a middle": "first last a b middle",
	} {
		require.Equal(t, want, strings.Join(parse(text).Order(), " "), text)
	}
}

func TestCycles(t *testing.T) {
	for text, want := range map[string]string{
		"a>b b>c":                 "",
		"a>b b>a":                 "a,b",
		"a>b b>c c>a":             "a,b,c",
		"x a>b b>a c>d d>e e>c":   "a,b c,d,e",
		"a>b b>c c>b":             "b,c",
		"a>a":                     "",
		"a>b b>c c>a c>d d>e e>d": "a,b,c d,e",
		"a>b a>c b>d c>d d>e":     "",
	} {
		var got []string
		for _, cycle := range parse(text).Cycles() {
			got = append(got, strings.Join(cycle, ","))
		}
		require.Equal(t, want, strings.Join(got, " "), text)
	}
}

func TestSelfReferences(t *testing.T) {
	require.Equal(t, []string{"b", "d"}, parse("a>b b>b c d>d d>a").SelfReferences())
	require.Empty(t, parse("a>b b>a").SelfReferences())
}

// TestRandomGraphs compares with the definitions: two nodes are in the same cycle if each is
// reachable from the other, and an order is valid if every edge points back.
func TestRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 300 {
		g := New[int]()
		size := 1 + random.Intn(8)
		for n := range size {
			g.Add(n)
		}
		for range random.Intn(2 * size) {
			g.Connect(random.Intn(size), random.Intn(size))
		}
		reach := reachable(g)
		together := map[[2]int]bool{}
		for _, cycle := range g.Cycles() {
			for _, a := range cycle {
				for _, b := range cycle {
					together[[2]int{a, b}] = a != b
				}
			}
		}
		acyclic := true
		for a := range size {
			for b := range size {
				mutual := a != b && reach[a][b] && reach[b][a]
				require.Equal(t, mutual, together[[2]int{a, b}], "%v", g.dependencies)
				acyclic = acyclic && !reach[a][a]
			}
		}
		if acyclic {
			requireOrdered(t, g)
		}
	}
}

// reachable is Warshall's transitive closure.
func reachable(g *Graph[int]) [][]bool {
	reach := make([][]bool, len(g.nodes))
	for n := range reach {
		reach[n] = make([]bool, len(g.nodes))
		for _, d := range g.dependencies[n] {
			reach[n][d] = true
		}
	}
	for k := range reach {
		for i := range reach {
			for j := range reach {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	return reach
}

func requireOrdered(t *testing.T, g *Graph[int]) {
	t.Helper()
	place := map[int]int{}
	for i, n := range g.Order() {
		place[n] = i
	}
	require.Len(t, place, len(g.nodes))
	for from, tos := range g.dependencies {
		for _, to := range tos {
			require.Less(t, place[to], place[from])
		}
	}
}
