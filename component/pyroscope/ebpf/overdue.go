package ebpf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
)

// minMargin is the least time beyond its interval after which a round is overdue.
const minMargin = time.Second

// overdueAfter returns the duration after which a round of collecting is overdue.
func overdueAfter(interval time.Duration) time.Duration {
	return interval + max(interval/2, minMargin)
}

// watchRound reports an overdue round of collecting while it is still running. The caller calls finished at the end of
// the round, and reports the health afterwards. Of several overdue rounds in a row, only the first is logged.
func (l *loop) watchRound() (finished func()) {
	s, began, again := l.session, time.Now(), l.overdue
	reported := make(chan struct{})
	timer := time.AfterFunc(overdueAfter(l.args.CollectInterval), func() {
		defer close(reported)
		message := fmt.Sprintf("no profiles: a round of collecting has taken %v so far", time.Since(began).Round(time.Second))
		if waits := waitsFor(s.Waiting()); waits != "" {
			message += ", " + waits
		}
		l.c.metrics.count(func(n *counts) { n.overdue++ })
		if !again {
			level.Error(l.c.opts.Logger).Log("msg", message)
		}
		l.c.SetHealth(component.HealthTypeUnhealthy, message)
	})
	return func() {
		if l.overdue = !timer.Stop(); l.overdue {
			<-reported
			return
		}
		if again {
			level.Info(l.c.opts.Logger).Log("msg", "rounds of collecting are no longer overdue")
		}
	}
}

// shownWaits bounds the number of files in a message.
const shownWaits = 3

// waitsFor describes the waits, the longest first.
func waitsFor(waiting map[string]time.Duration) string {
	all := slices.SortedFunc(maps.Keys(waiting), func(a, b string) int { return int(waiting[b] - waiting[a]) })
	var b strings.Builder
	for i, what := range all[:min(len(all), shownWaits)] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "still %s after %v", what, waiting[what].Round(time.Second))
	}
	if more := len(all) - shownWaits; more > 0 {
		fmt.Fprintf(&b, "; %d more", more)
	}
	return b.String()
}
