package ebpf

import (
	"maps"
	"slices"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/ebpf/limit"
)

// Limits on log lines about errors whose text others can choose: who maps a hundred
// broken files must not write a hundred lines.
const (
	loggedPerRound = 5    // lines of one round of collecting
	loggedInAll    = 1024 // errors remembered
)

// logErrors logs each kind of error that costs names or stacks once, the first few of a
// round with their text and the rest by their number.
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
			"msg", "some names or stacks are missing for other reasons too, which debug info lists", "errors", others)
	}
}
