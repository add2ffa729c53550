package clock

import (
	"testing"
	"time"
)

// TestThreadCPU: waiting takes no CPU time, and computing does.
func TestThreadCPU(t *testing.T) {
	if spent := CPUTime(func() { time.Sleep(300 * time.Millisecond) }); spent > 200*time.Millisecond {
		t.Errorf("a sleep took %v", spent)
	}
	sum, begun := 0, time.Now()
	spent := CPUTime(func() {
		for time.Since(begun) < 2*time.Second {
			sum++
		}
	})
	if spent <= 0 || spent > time.Since(begun)+100*time.Millisecond {
		t.Errorf("%v of work took %v", time.Since(begun), spent)
	}
}
