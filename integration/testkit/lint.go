package testkit

import (
	"os"
	"testing"
)

// lintVariable is set to 1 by make lint.
const lintVariable = "HEADWATER_LINT"

// Lint leaves a test of style, such as one of words, to make lint: it skips t unless
// HEADWATER_LINT=1. Such a test is no reason to run all others again.
func Lint(t testing.TB) {
	t.Helper()
	if os.Getenv(lintVariable) != "1" {
		t.Skip("make lint runs this")
	}
}
