package write

import (
	"fmt"
	"sync"
	"time"
)

// growths is the number of consecutive windows of growth after which growth is reported.
const growths = 3

// growth detects that a queue grows although its endpoint takes all profiles sent to it: then profiles arrive faster
// than they can be sent one after the other. Of each window only the least number of waiting profiles counts, because
// profiles come in bursts. It is safe for concurrent use.
type growth struct {
	window time.Duration

	mu       sync.Mutex
	begun    time.Time // start of this window; zero: starts with the next look
	least    int       // least number of waiting profiles in this window
	arrivals int       // profiles that arrived at the endpoint in this window
	before   int       // least of the previous window; -1 in the first window
	rises    int       // consecutive windows with a higher least than the previous one
	reported bool
	growing  bool
}

func newGrowth(window time.Duration) *growth { return &growth{window: window, before: -1} }

// failed notes a failed attempt: from now on, profiles wait because of the endpoint.
func (g *growth) failed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart()
	g.growing = false
}

// reset starts over after a change of the settings.
func (g *growth) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart()
	g.reported, g.growing = false, false
}

func (g *growth) restart() { g.begun, g.before, g.rises = time.Time{}, -1, 0 }

// lookAtQueue notes how many profiles wait; arrived says that the endpoint has just taken one. It returns true once:
// when the growth should be reported.
func (g *growth) lookAtQueue(now time.Time, waiting int, arrived bool, inFlight int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if waiting <= inFlight {
		g.growing = false
	}
	if g.begun.IsZero() {
		g.begun, g.least, g.arrivals = now, waiting, 0
	}
	g.least = min(g.least, waiting)
	if arrived {
		g.arrivals++
	}
	if now.Sub(g.begun) < g.window {
		return false
	}
	if g.arrivals > 0 && g.before >= 0 && g.least > g.before {
		g.rises++
	} else {
		g.rises = 0
	}
	g.before, g.begun = g.least, time.Time{}
	if g.rises < growths || g.least < 10*inFlight {
		return false
	}
	first := !g.reported
	g.reported, g.growing = true, true
	return first
}

// warning returns a text that says that the queue grows and how to fix it, or "".
func (g *growth) warning(inFlight int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.growing {
		return ""
	}
	return growthText(inFlight)
}

// growthText returns advice on how to stop a queue from growing.
func growthText(inFlight int) string {
	const grows = "the queue grows although the endpoint accepts profiles: "
	if inFlight >= mostInFlight {
		return grows + fmt.Sprintf("max_in_flight has its maximum %d, so send fewer profiles"+
			" (a longer collect_interval, fewer targets)", inFlight)
	}
	return grows + fmt.Sprintf("profiles arrive faster than max_in_flight = %d of the queue block sends them;"+
		" raise it, up to %d", inFlight, mostInFlight)
}
