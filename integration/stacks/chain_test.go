package stacks

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// earlyChain is the chain that runs before the shared profiler does.
const earlyChain = "hwchain-early"

// TestChain profiles a program without frame pointers whose stack goes
// through 60 functions, a shared library and a callback of libc's qsort: their
// names in every sample, in order, none left out.
func TestChain(t *testing.T) {
	t.Parallel()
	host := sharedHost(t)
	late := rig.ChainProgram(t, "hwchain-late")
	for _, test := range []struct {
		name  string
		start func(t *testing.T) (program string)
	}{
		{"started before the profiler", func(t *testing.T) string {
			return filepath.Join(host.run(t, earlyChain).dir, earlyChain)
		}},
		{"started after", func(t *testing.T) string {
			rig.StartChain(t, late, 3600)
			return late
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			program := test.start(t)
			// 750 samples: the first ones, of the dynamic linker, are fewer than 15.
			rig.JudgeChain(t, inTime(t, host.until(t, filepath.Base(program), 3*time.Second)), program)
		})
	}
}
