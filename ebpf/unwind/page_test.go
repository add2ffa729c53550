package unwind

import (
	"math/rand/v2"
	"testing"
)

// TestRuleIn checks that lookups in the words of a page find the same rules as lookups in the page.
func TestRuleIn(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		page := randomPage(random)
		words := page.Words()
		for range 50 {
			vaddr := 7<<MaxPageShift | uint64(random.IntN(MaxPageSize))
			if got, want := RuleIn(words, len(page.Rows), vaddr), page.Rule(vaddr); got != want {
				t.Fatalf("at 0x%x: %v, want %v", vaddr, got, want)
			}
		}
	}
}
