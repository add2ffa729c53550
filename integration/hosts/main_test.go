package hosts

import (
	"flag"
	"testing"

	"github.com/headwater/headwater/integration/lab"
)

// TestMain runs all tests at once, unless -parallel says another number: most of them wait for rounds of profiling.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	lab.Main(m)
}
