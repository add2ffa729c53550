package testkit

import (
	"testing"
	"time"
)

const (
	// patience is how long [Eventually] waits. It only determines when a failing test ends.
	patience = 2 * time.Minute
	// leastChecks is the minimum number of checks before Eventually fails, independent of the time: the test itself may
	// have stood still for minutes, for example in a suspended virtual machine.
	leastChecks = 10
)

// Eventually checks a condition until it holds, first after milliseconds and then ten times per second. After two
// minutes and ten checks the test fails, with the condition's description.
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
