package main

import (
	"math/rand/v2"
	"testing"
)

// drawn makes blocks of 50 stacks on each side, of ten kinds that are not equally
// frequent. In each block the program does more of one kind. Of our stacks, broken in a
// thousand end early.
func drawn(random *rand.Rand, blocks, broken int) []pair {
	var all []pair
	for range blocks {
		b := pair{newSide(), newSide()}
		favourite := random.IntN(10)
		for i := range 100 {
			leaf := min(random.IntN(10), random.IntN(10))
			if random.IntN(2) == 0 {
				leaf = favourite
			}
			kinds := []string{"root > ", "root > main > ", "root > main > " + string(rune('a'+leaf))}
			switch {
			case i%2 == 0:
				b.theirs.addKinds(kinds)
			case random.IntN(1000) < broken:
				b.ours.addKinds([]string{"lost > ", "lost > " + string(rune('a'+leaf))})
			default:
				b.ours.addKinds(kinds)
			}
		}
		all = append(all, b)
	}
	return all
}

// TestPermutationTest: equal distributions have a small p as rarely as they should,
// though what the program does changes from block to block; a few broken stacks are
// noticed.
func TestPermutationTest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	below := 0
	const tries = 40
	for range tries {
		if p, _ := permutationTest(drawn(random, 40, 0)); p < 0.1 {
			below++
		}
	}
	if below > 12 { // 4 are expected; 12 or more occur by chance once in 5,000 runs
		t.Errorf("%d of %d equal distributions have p < 0.1", below, tries)
	}
	if p, kind := permutationTest(drawn(random, 40, 30)); p > 0.001 {
		t.Errorf("3 %% of broken stacks: p = %g, most different %q", p, kind)
	}
	if p, _ := permutationTest(nil); p != 1 {
		t.Errorf("nothing: p = %g, want 1", p)
	}
}
