package filework

import (
	"time"

	"golang.org/x/time/rate"
)

// allowances are the times that users may take, by user ID, in milliseconds: a burst, and a share of the time in the
// long run. Users that have not taken any time recently have no entry.
type allowances map[uint32]*rate.Limiter

// hasTime reports whether a user may take that much time now.
func (a allowances) hasTime(owner uint32, wanted time.Duration, now time.Time) bool {
	left := a[owner]
	return left == nil || left.TokensAt(now) >= float64(wanted.Milliseconds())
}

// spend notes time that a user has taken. The user's allowance is a burst of atOnce, and 1/share of the time.
func (a *allowances) spend(owner uint32, spent time.Duration, now time.Time, atOnce time.Duration, share int64) {
	left := (*a)[owner]
	if left == nil {
		left = rate.NewLimiter(rate.Limit(time.Second.Milliseconds()/share), int(atOnce.Milliseconds()))
		if *a == nil {
			*a = allowances{}
		}
		(*a)[owner] = left
	}
	for spent > 0 { // at most the burst of the Limiter at once
		part := min(spent, atOnce)
		left.ReserveN(now, int(part.Milliseconds()))
		spent -= part
	}
}

// forget forgets the users whose allowance is full again.
func (a allowances) forget(now time.Time) {
	for owner, left := range a {
		if left.TokensAt(now) >= float64(left.Burst()) {
			delete(a, owner)
		}
	}
}
