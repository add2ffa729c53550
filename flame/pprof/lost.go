package pprof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// lostComment is the prefix of the comment with the number of samples that the host lost during a profile.
const lostComment = "headwater lost: "

// SetLost writes the number of samples of the host that were due during a profile, and the number of lost samples, into
// a comment of the profile. It replaces an earlier comment.
func SetLost(p *profile.Profile, due, lost uint64) {
	p.Comments = slices.DeleteFunc(p.Comments, func(c string) bool { return strings.HasPrefix(c, lostComment) })
	p.Comments = append(p.Comments, fmt.Sprintf("%s%d of %d samples due", lostComment, lost, max(due, lost)))
}

// LostOf returns the numbers that SetLost wrote, or their sums for merged profiles. due is 0 if there are none.
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
