package tools

import (
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMain lets more tests run at once than there are CPUs: most of them wait for a recording, which only samples the
// processes of its own test.
func TestMain(m *testing.M) {
	testkit.Parallel(6)
	rig.Main(m)
}
