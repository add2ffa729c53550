// Package testkit holds the helpers that tests of all packages share: when a test runs
// (make test or make nightly), waiting for a condition, programs to profile, and a cache
// of compiled fixtures.
//
// Its subfolders hold the larger helpers: need (root and tools of the machine), fuse (a file system that stops
// answering), retry (tests of make nightly that are tried again).
package testkit

import (
	"os"
	"testing"
)

// nightlyVariable is set to 1 by make nightly.
const nightlyVariable = "HEADWATER_NIGHTLY"

// Nightly leaves a test, or one part of a test, to make nightly: it skips t unless HEADWATER_NIGHTLY=1. The reason says
// which test of make test checks the same subject sooner, or what the test repeats.
//
// Only a function Test... calls Nightly and [IsNightly], so that the list
// integration/tree/tests.txt can be made from the source.
func Nightly(t testing.TB, reason string) {
	t.Helper()
	if !IsNightly() {
		t.Skip("make nightly runs this: " + reason)
	}
}

// IsNightly reports whether make nightly runs the test, which then may take more programs,
// more rounds or more time.
func IsNightly() bool { return os.Getenv(nightlyVariable) == "1" }
