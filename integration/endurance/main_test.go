package endurance

import (
	"testing"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit"
)

// TestMain runs all tests of make test at once. The tests of make nightly that measure the cost of the profiler run one
// after another.
func TestMain(m *testing.M) {
	testkit.Parallel(16)
	lab.Main(m)
}
