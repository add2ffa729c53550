package ebpf

import (
	"maps"
	"slices"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// Limits on log lines about errors whose text other programs influence: a program that maps a hundred broken files must
// not cause a hundred lines.
const (
	loggedPerRound = 5    // lines of one round of collecting
	loggedInAll    = 1024 // errors remembered
)

// logErrors logs each error that costs names or stacks once. It logs the first few of a round with their text, and the
// number of the remaining ones.
func (l *loop) logErrors(errs map[string]uint64) {
	lines, others := 0, 0
	for _, err := range slices.Sorted(maps.Keys(errs)) {
		if l.logged[err] || err == limit.Rest || len(l.logged) >= loggedInAll {
			continue
		}
		l.logged[err] = true
		if lines == loggedPerRound {
			others++
			continue
		}
		lines++
		level.Warn(l.c.opts.Logger).Log("msg", "some names or stacks are missing", "err", err)
	}
	if others > 0 {
		level.Warn(l.c.opts.Logger).Log(
			"msg", "some names or stacks are missing for more reasons, which the debug info lists", "errors", others)
	}
}
