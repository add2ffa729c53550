package testkit

import (
	"os"
	"testing"
)

// lintVariable is set to 1 by make lint.
const lintVariable = "HEADWATER_LINT"

// Lint leaves a style test, such as a check of words, to make lint: it skips t unless HEADWATER_LINT=1. A change that
// only affects style then does not require all other tests to run again.
func Lint(t testing.TB) {
	t.Helper()
	if os.Getenv(lintVariable) != "1" {
		t.Skip("make lint runs this")
	}
}
