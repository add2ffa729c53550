package endurance

import (
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMain runs all tests of make test at once. The tests of make nightly that measure the cost of the profiler run one
// after another.
func TestMain(m *testing.M) {
	testkit.Parallel(16)
	rig.Main(m)
}
