package testkit

import (
	"testing"
	"time"
)

// patience is how long [Eventually] waits. It only decides when a test that fails ends.
const patience = 2 * time.Minute

// Eventually checks a condition until it holds, first after milliseconds and then ten times
// a second. After two minutes it fails the test and says which condition never held.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	pause := time.Millisecond
	for end := time.Now().Add(patience); !condition(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}
