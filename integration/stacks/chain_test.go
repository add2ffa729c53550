package stacks

import (
	"testing"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// TestChain profiles a program without frame pointers whose stack goes
// through 60 functions, a shared library and a callback of libc's qsort: their
// names in every sample, in order, none left out.
func TestChain(t *testing.T) { retry.Run(t, tryChain) }

func tryChain(t *retry.T) {
	need.Root(t)
	server := lab.StartPyroscope(t)

	early := lab.ChainProgram(t, "hwchain-early")
	lab.StartChain(t, early, 60)
	lab.StartHeadwater(t, lab.HostConfig(server.URL, "chain", ""))
	late := lab.ChainProgram(t, "hwchain-late")
	lab.StartChain(t, late, 60)

	for name, program := range map[string]string{"started before the profiler": early, "started after": late} {
		t.Run(name, func(t *retry.T) { lab.CheckChain(t, server, program) })
	}
}
