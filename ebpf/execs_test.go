package ebpf

import (
	"os/exec"
	"testing"
	"time"
)

// TestExecLoops: programs that end after a millisecond have whole stacks at a high rate
// too, though each is new to the profiler.
func TestExecLoops(t *testing.T) {
	for range 2 {
		cmd := exec.Command("sh", "-c", "while :; do /bin/true; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	o := DefaultOptions()
	o.SampleRate = 997
	s := start(t, o)
	for range 5 {
		time.Sleep(2 * time.Second)
		if _, err := s.Collect(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stats := s.Stats()
	var stacks, complete uint64
	for outcome, n := range stats.Outcomes {
		switch outcome {
		case "complete", "complete_fp":
			complete += n
			stacks += n
		case "kernel_thread", "no_user_registers", "task_32bit", "not_collected":
		default:
			stacks += n
		}
	}
	unknown := stats.Outcomes["process_unknown"]
	t.Logf("%d of %d stacks are complete, %d are of unknown processes; %d copied, %d not; %v",
		complete, stacks, unknown, stats.StackCopies, stats.StacksUncopied, stats.Outcomes)
	if stacks < 1000 {
		t.Errorf("%d stacks in all", stacks)
	}
	if complete < stacks*95/100 || unknown > stacks/50 {
		t.Errorf("%d of %d stacks are complete, %d of processes that are said to be unknown", complete, stacks, unknown)
	}
}
