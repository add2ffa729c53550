package page

import (
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMain lets four tests run at once: most of them wait for a browser or for a round of profiling.
func TestMain(m *testing.M) {
	testkit.Parallel(4)
	rig.Main(m)
}
