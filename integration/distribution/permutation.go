package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// permutations of the test; the smallest p is one in that number.
const permutations = 50000

// rare kinds, seen fewer times, cannot decide and are left out.
const rare = 8

// side is what one side saw.
type side struct {
	stacks int
	kinds  map[string]int // a stack counts as several kinds
}

func newSide() side { return side{kinds: map[string]int{}} }

func (s *side) add(kinds []string) {
	s.stacks++
	for _, kind := range kinds {
		s.kinds[kind]++
	}
}

// pair is what both sides saw in one block of time, or in all.
type pair struct{ ours, theirs side }

// permutationTest tests whether both sides draw from one distribution. Blocks may differ
// in what the program does: within a block, it is equally likely that the two sides had
// seen what the other one has. The statistic is the largest of those of all kinds of
// stacks: the sum of the differences of its shares, block by block, over the root of the
// sum of their squares. Comparing it with the largest one of each permutation allows for
// the number of kinds (Westfall and Young 1993). It returns the probability of what was
// seen, or more, and the kind that differs most.
func permutationTest(blocks []pair) (p float64, kind string) {
	kinds, differences := differencesOf(blocks)
	if len(kinds) == 0 {
		return 1, ""
	}
	signs := make([]float64, len(blocks))
	for i := range signs {
		signs[i] = 1
	}
	seen, most := largest(differences, signs)
	random := rand.New(rand.NewPCG(1, 2)) // the same at each run
	as := 0
	for range permutations {
		for i := range signs {
			signs[i] = float64(random.IntN(2)*2 - 1)
		}
		if value, _ := largest(differences, signs); value >= seen-1e-9 {
			as++
		}
	}
	return float64(as+1) / float64(permutations+1), kinds[most]
}

// term is a difference of shares in one block.
type term struct {
	block int
	value float64
}

// differencesOf returns the kinds of stacks, and of each the differences of its shares
// in the blocks where it occurs, divided by the root of the sum of their squares.
func differencesOf(blocks []pair) (kinds []string, differences [][]term) {
	for _, kind := range commonKinds(blocks) {
		var d []term
		squares := 0.0
		for n, b := range blocks {
			if b.ours.stacks == 0 || b.theirs.stacks == 0 {
				continue // nothing to compare with
			}
			share := float64(b.ours.kinds[kind])/float64(b.ours.stacks) - float64(b.theirs.kinds[kind])/float64(b.theirs.stacks)
			if share != 0 {
				d = append(d, term{n, share})
				squares += share * share
			}
		}
		for i := range d {
			d[i].value /= math.Sqrt(squares)
		}
		kinds, differences = append(kinds, kind), append(differences, d)
	}
	return kinds, differences
}

// commonKinds returns the kinds that are not rare, sorted.
func commonKinds(blocks []pair) []string {
	counts := map[string]int{}
	for _, b := range blocks {
		for _, s := range []side{b.ours, b.theirs} {
			for kind, n := range s.kinds {
				counts[kind] += n
			}
		}
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n < rare })
	return slices.Sorted(maps.Keys(counts))
}

// largest returns the statistic, and which kind of stack it is of.
func largest(differences [][]term, signs []float64) (value float64, kind int) {
	for i, d := range differences {
		sum := 0.0
		for _, t := range d {
			sum += signs[t.block] * t.value
		}
		if sum = math.Abs(sum); sum > value {
			value, kind = sum, i
		}
	}
	return value, kind
}
