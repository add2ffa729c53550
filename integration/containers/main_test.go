package containers

import (
	"testing"

	"github.com/headwater/headwater/integration/testkit/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
