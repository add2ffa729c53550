package unwind

import "testing"

// TestOutcomeNames: each outcome has its own name.
func TestOutcomeNames(t *testing.T) {
	seen := map[string]Outcome{}
	for o := Unset; o <= Moved; o++ {
		name := o.String()
		if other, taken := seen[name]; taken || name == "unknown" {
			t.Errorf("outcome %d is called %q, like %d", o, name, other)
		}
		seen[name] = o
	}
}

// TestExplain: every outcome of a sample has a sentence for users.
func TestExplain(t *testing.T) {
	texts := map[string]Outcome{}
	for o := Complete; o <= Switched; o++ {
		text := o.Explain()
		if other, ok := texts[text]; ok || text == "" {
			t.Errorf("%s is explained as %q, as %s is", o, text, other)
		}
		texts[text] = o
	}
}
