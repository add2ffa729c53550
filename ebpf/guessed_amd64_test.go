package ebpf

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestGuessed: whole stacks that lead through code that a program has made itself are counted.
func TestGuessed(t *testing.T) {
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "hwjitted")
	build := exec.Command("gcc", "-O2", "-o", program, "../integration/stacks/testdata/rules/jitted.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	s := start(t, identityOptions())
	defer s.Close()
	time.Sleep(time.Second)
	before := s.Stats().Guessed
	if out, err := exec.Command(program, "1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	guessed := s.Stats().Guessed - before
	t.Logf("%d samples in %d profiles, %d before", guessed, len(profiles), before)
	if guessed < 20 {
		t.Errorf("%d stacks through unknown code were counted, want 20 or more", guessed)
	}
}
