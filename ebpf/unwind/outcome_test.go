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
