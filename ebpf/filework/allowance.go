package filework

import (
	"time"

	"golang.org/x/time/rate"
)

// allowances are the time that each user may take, by the user's ID, in milliseconds: some at once, and in the long run
// a share of the time. Users that took none lately are not there.
type allowances map[uint32]*rate.Limiter

// has reports whether a user may take that much time now.
func (a allowances) has(owner uint32, wanted time.Duration, now time.Time) bool {
	left := a[owner]
	return left == nil || left.TokensAt(now) >= float64(wanted.Milliseconds())
}

// spend notes time that a user has taken, of atOnce at once and 1/share of the time.
func (a *allowances) spend(owner uint32, spent time.Duration, now time.Time, atOnce time.Duration, share int64) {
	left := (*a)[owner]
	if left == nil {
		left = rate.NewLimiter(rate.Limit(time.Second.Milliseconds()/share), int(atOnce.Milliseconds()))
		if *a == nil {
			*a = allowances{}
		}
		(*a)[owner] = left
	}
	for spent > 0 { // no more at once than the Limiter takes
		part := min(spent, atOnce)
		left.ReserveN(now, int(part.Milliseconds()))
		spent -= part
	}
}

// forget forgets the users that may take all again.
func (a allowances) forget(now time.Time) {
	for owner, left := range a {
		if left.TokensAt(now) >= float64(left.Burst()) {
			delete(a, owner)
		}
	}
}
