package delivery

import (
	"strings"
	"sync"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMain runs all tests at once: most of them wait for a server.
func TestMain(m *testing.M) {
	testkit.Parallel(32)
	rig.Main(m)
}

var (
	sharedOnce sync.Once
	shared     *rig.Pyroscope
)

// sharedPyroscope returns the server that the tests of the package share. Each has services of its own there.
func sharedPyroscope(t testing.TB) *rig.Pyroscope {
	t.Helper()
	sharedOnce.Do(func() { shared = rig.StartPyroscope(rig.SharedT{TB: t}) })
	if shared == nil {
		t.Fatal("the shared Pyroscope did not start: another test has failed")
	}
	return shared
}

// refused returns what the server has refused, but for the old profiles that TestPushMatrix pushes to be refused, and
// for what all tests together push at a higher rate than the server takes, which is pushed again.
func refused(t testing.TB, server *rig.Pyroscope) (lines []string) {
	t.Helper()
	for line := range strings.Lines(server.Discarded(t)) {
		if !strings.Contains(line, `reason="not_in_ingestion_window"`) && !strings.Contains(line, `reason="rate_limited"`) {
			lines = append(lines, line)
		}
	}
	return lines
}
