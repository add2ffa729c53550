package tools

import (
	"flag"
	"testing"

	"github.com/headwater/headwater/integration/lab"
)

// TestMain lets more tests run at once than there are CPUs, unless -parallel says how many: most of them wait for a
// recording, which samples the processes of its own test alone.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	lab.Main(m)
}
