package page

import (
	"testing"

	"github.com/headwater/headwater/integration/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }
