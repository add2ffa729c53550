package profile

import (
	"fmt"
	"testing"
	"time"
)

// Services come and go: only a limited number is counted separately, and frames of further services are still counted.
func TestSymbolsByServiceAreBounded(t *testing.T) {
	c := newCounts()
	now := time.Unix(1_800_000_000, 0)
	for i := range 3 * maxServices {
		c.addSymbols(fmt.Sprint("service", i), symbolCounts{known: 1, unknown: 2, noModule: 3}, now)
	}
	var out Stats
	c.describe(&out)
	if n := len(out.KnownSymbols); n != maxServices+1 {
		t.Errorf("%d services, want %d and those beyond", n, maxServices)
	}
	if got := out.UnknownSymbols[otherServices]; got != 2*2*maxServices {
		t.Errorf("%d frames of services beyond the limit, want %d", got, 2*2*maxServices)
	}
	c.addSymbols("late", symbolCounts{known: 7}, now.Add(serviceIdle))
	c.describe(&out)
	if len(out.KnownSymbols) != 1 || out.KnownSymbols["late"] != 7 {
		t.Errorf("services %v, want the one that is not idle", out.KnownSymbols)
	}
}
