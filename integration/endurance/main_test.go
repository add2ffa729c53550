package endurance

import (
	"flag"
	"testing"

	"github.com/headwater/headwater/integration/lab"
)

// TestMain runs all tests of make test at once, unless -parallel says another number. Those of make nightly that
// measure what the profiler costs run one after another.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	lab.Main(m)
}
