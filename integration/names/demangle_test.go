package names

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestDemangle shows one program's C++ names in the four ways.
func TestDemangle(t *testing.T) {
	need.Root(t)
	server := rig.StartPyroscope(t)
	program := filepath.Join(t.TempDir(), "hwmill")
	rig.Compile(t, "g++", append(slices.Clone(rig.WithoutFramePointers), "-o", program,
		"../stacks/testdata/programs/mill.cc")...)
	mill := rig.Start(t, exec.Command(program, "600"))
	want := map[string]string{
		"none":       "_ZN5water4MillIdE4turnEdm",
		"simplified": "water::Mill::turn",
		"templates":  "water::Mill<double>::turn",
		"full":       "water::Mill<double>::turn(double, unsigned long)",
	}
	config := fmt.Sprintf("pyroscope.write \"server\" {\n\tendpoint {\n\t\turl = %q\n\t}\n}\n", server.URL)
	for mode := range want {
		config += fmt.Sprintf(`
pyroscope.ebpf "%[1]s" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%[2]d", "service_name" = "%[1]s"}]
	collect_interval = "1s"
	demangle         = "%[1]s"
}
`, mode, mill.PID())
	}
	rig.StartHeadwater(t, config)
	for mode, name := range want {
		testkit.Eventually(t, mode+" has "+name, func() bool {
			all := rig.Stacks(server.Profile(t, rig.CPUProfile, fmt.Sprintf("{service_name=%q}", mode), time.Time{}))
			return slices.ContainsFunc(all, func(s rig.Stack) bool { return s.Has(name) })
		})
	}
}
