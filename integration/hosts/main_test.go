package hosts

import (
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMain runs all tests at once: most of them wait for rounds of profiling.
func TestMain(m *testing.M) {
	testkit.Parallel(16)
	rig.Main(m)
}
