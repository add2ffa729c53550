package ebpf

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestGuessed: whole stacks that lead through code that a program has made itself are counted.
func TestGuessed(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "hwjitted")
	build := exec.Command("gcc", "-O2", "-o", program, "../integration/stacks/testdata/rules/jitted.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	pid := testkit.Run(t, exec.Command(program, "600"))
	s := start(t, only(identityOptions(), pid)) // there may be others that make code
	defer s.Close()
	collect(t, s, pid, 100)
	guessed := s.Stats().Guessed
	t.Logf("%d samples", guessed)
	if guessed < 20 {
		t.Errorf("%d stacks through unknown code were counted, want 20 or more", guessed)
	}
}
