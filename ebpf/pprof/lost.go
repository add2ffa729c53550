package pprof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// lostComment begins the comment of a profile that says how many samples its host lost meanwhile.
const lostComment = "headwater lost: "

// SetLost writes into a profile how many samples of the host were due while it was taken, and how many of these were
// lost. It replaces what was said before.
func SetLost(p *profile.Profile, due, lost uint64) {
	p.Comments = slices.DeleteFunc(p.Comments, func(c string) bool { return strings.HasPrefix(c, lostComment) })
	p.Comments = append(p.Comments, fmt.Sprintf("%s%d of %d samples due", lostComment, lost, max(due, lost)))
}

// LostOf returns what SetLost wrote, of merged profiles the sum. Due is 0 if there is nothing.
func LostOf(p *profile.Profile) (due, lost uint64) {
	for _, c := range p.Comments {
		text, ok := strings.CutPrefix(c, lostComment)
		if !ok {
			continue
		}
		var ofDue, ofLost uint64
		if _, err := fmt.Sscanf(text, "%d of %d samples due", &ofLost, &ofDue); err == nil && ofLost <= ofDue {
			due, lost = due+ofDue, lost+ofLost
		}
	}
	return due, lost
}
