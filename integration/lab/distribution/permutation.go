package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// permutations is the number of permutations in the test; the smallest possible p is about its inverse.
const permutations = 50000

// rare is the number of occurrences below which a kind is left out, because it cannot be significant.
const rare = 8

// side holds the stacks of one side.
type side struct {
	stacks int
	kinds  map[string]int // a stack counts for several kinds
}

func newSide() side { return side{kinds: map[string]int{}} }

func (s *side) addKinds(kinds []string) {
	s.stacks++
	for _, kind := range kinds {
		s.kinds[kind]++
	}
}

// pair holds the stacks of both sides, in one block of time or in all.
type pair struct{ ours, theirs side }

// permutationTest tests whether the stacks of both sides come from the same distribution. The program may behave
// differently from block to block; within a block, exchanging the sides is equally likely under the null hypothesis.
// For each kind of stack, the test sums the differences of its shares over all blocks, and divides by the root of the
// sum of their squares. The statistic is the largest of these values. Comparing it with the largest value of each
// permutation corrects for the number of kinds (Westfall and Young 1993). It returns the probability of a result at
// least as large as the observed one, and the kind that differs most.
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
	random := rand.New(rand.NewPCG(1, 2)) // the same numbers in each run
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

// differencesOf returns the kinds of stacks, and for each kind the differences of its shares in the blocks where it
// occurs, divided by the root of the sum of their squares.
func differencesOf(blocks []pair) (kinds []string, differences [][]term) {
	for _, kind := range commonKinds(blocks) {
		var d []term
		squares := 0.0
		for n, b := range blocks {
			if b.ours.stacks == 0 || b.theirs.stacks == 0 {
				continue // one side is empty
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

// largest returns the statistic, and its kind of stack.
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
