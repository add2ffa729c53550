package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// verified is what is of interest of verify's report.
type verified struct {
	UserStacks    uint64            `json:"user_stacks"`
	Complete      float64           `json:"complete"`
	Stacks        uint64            `json:"stacks_compared"`
	Frames        uint64            `json:"frames_compared"`
	FramesAgreed  uint64            `json:"frames_agreed"`
	NotCheckable  uint64            `json:"frames_not_checkable"`
	NotCompared   map[string]uint64 `json:"not_compared"`
	ReferenceEnds map[string]uint64 `json:"reference_ends"`
}

// verify runs headwater verify with arguments to its end.
func verify(t testing.TB, args ...string) (r verified, text string) {
	t.Helper()
	cmd := exec.Command(headwaterBinary(t), append([]string{"verify", "--json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", cmd, err, errs.String(), out.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return r, out.String()
}

// TestVerify finds that every frame of programs that are built in many ways is
// the one that a full interpreter of call frame information finds.
func TestVerify(t *testing.T) {
	requireRoot(t)
	for _, p := range programs() {
		try := func(t *trial.T) {
			r, text := verify(t, "--duration=3s", "--sample-rate=499", "--min-agreement=1", "--", p.build(t), "60")
			t.Logf("%d stacks, %d frames, %d not checkable, complete %.4f, reference %v, not compared %v", r.Stacks, r.Frames, r.NotCheckable, r.Complete, r.ReferenceEnds, r.NotCompared)
			// On a busy machine few samples are taken, and perf's buffer has no room for
			// every copy, which verify counts.
			if r.Stacks < 10 || r.Frames < r.Stacks {
				t.Errorf("%d stacks with %d frames compared, want 10 and more\n%s", r.Stacks, r.Frames, text)
			}
			if r.Complete < 0.9 {
				t.Errorf("%.4f of the stacks are complete\n%s", r.Complete, text)
			}
		}
		t.Run(p.name, func(t *testing.T) { trial.Run(t, try) })
	}
}

// TestVerifyEnds: verify of one process leaves out all others, and an interrupt
// ends it with the report. Its own command ends with it.
func TestVerifyEnds(t *testing.T) { trial.Run(t, tryVerifyEnds) }

func tryVerifyEnds(t *trial.T) {
	requireRoot(t)
	chain := startChain(t, chainProgram(t, "hwverify"), 60)
	p := start(t, exec.Command(headwaterBinary(t), "verify", "--duration=1h", fmt.Sprintf("--pid=%d", chain.pid())))
	time.Sleep(3 * time.Second)
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t, 10*time.Second); code != 0 || len(p.output.lines("frames compared", "100.000 %")) != 1 {
		t.Errorf("exit code %d\n%s", code, p.output.tail(100))
	}

	out, err := exec.Command(headwaterBinary(t), "verify", "--duration=1s", "--", "sh", "-c", "while :; do :; done").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// A process that is not there is an error, not an empty report.
	out, err = exec.Command(headwaterBinary(t), "verify", "--pid=4194303").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("process 4194303")) {
		t.Errorf("%v\n%s", err, out)
	}
}
