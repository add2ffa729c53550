package write

import (
	"fmt"
	"sync"
	"time"
)

// growths is how many windows in a row a queue grows before it is reported.
const growths = 3

// growth finds out whether a queue grows although its endpoint takes all that it
// is sent: then more comes in than goes out one after the other. Of each window
// only the least that waits counts, for profiles come in bursts. It is safe for
// concurrent use.
type growth struct {
	window time.Duration

	mu       sync.Mutex
	begun    time.Time // of this window; zero: with the next look
	least    int       // that waited in this window
	arrivals int       // in this window
	before   int       // least of the window before; -1 in the first window
	rises    int       // windows in a row that were above those before them
	reported bool
	growing  bool
}

func newGrowth(window time.Duration) *growth { return &growth{window: window, before: -1} }

// failed notes an attempt that failed: what waits now waits for the endpoint.
func (g *growth) failed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart()
	g.growing = false
}

// reset starts again, with other settings.
func (g *growth) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart()
	g.reported, g.growing = false, false
}

func (g *growth) restart() { g.begun, g.before, g.rises = time.Time{}, -1, 0 }

// look notes how many profiles wait, after one more has arrived or come in. It returns
// true once: when it should be reported that the queue grows.
func (g *growth) look(now time.Time, waiting int, arrived bool, inFlight int) bool {
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

// warning says that the queue grows and what helps, or "".
func (g *growth) warning(inFlight int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.growing {
		return ""
	}
	return growthText(inFlight)
}

// growthText says what helps a queue that grows.
func growthText(inFlight int) string {
	const grows = "the queue grows although the endpoint takes what it is sent: "
	if inFlight >= mostInFlight {
		return grows + fmt.Sprintf("max_in_flight is %d, the most there can be, so fewer profiles have to come"+
			" (a longer collect_interval, fewer targets)", inFlight)
	}
	return grows + fmt.Sprintf("profiles come faster than max_in_flight = %d of the queue block lets them go;"+
		" raise it, up to %d", inFlight, mostInFlight)
}
