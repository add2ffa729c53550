package testkit

import (
	"testing"
	"time"
)

const (
	// patience is how long [Eventually] waits. It only decides when a test that fails ends.
	patience = 2 * time.Minute
	// leastChecks is how often Eventually checks a condition before it fails, however much time has passed: the test
	// itself may have stood still for minutes, as it does in a virtual machine that is suspended.
	leastChecks = 10
)

// Eventually checks a condition until it holds, first after milliseconds and then ten times
// a second. After two minutes and ten checks it fails the test and says which condition never held.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	pause := time.Millisecond
	end := time.Now().Add(patience)
	for checks := 1; !condition(); checks++ {
		if checks >= leastChecks && time.Now().After(end) {
			t.Fatalf("after %v and %d checks still not: %s", patience, checks, what)
		}
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}
