package stacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// verified is the relevant part of verify's report.
type verified struct {
	UserStacks    uint64            `json:"user_stacks"`
	Complete      float64           `json:"complete"`
	StacksWhole   uint64            `json:"stacks_whole"`
	Stacks        uint64            `json:"stacks_compared"`
	Frames        uint64            `json:"frames_compared"`
	FramesAgreed  uint64            `json:"frames_agreed"`
	FramesMissing uint64            `json:"frames_missing"`
	Coverage      float64           `json:"coverage"`
	InPart        map[string]uint64 `json:"in_part"`
	NotComparable map[string]uint64 `json:"not_comparable"`
	Disagreements []any             `json:"disagreements"`
}

// verify runs headwater verify with arguments to its end.
func verify(t testing.TB, args ...string) (r verified, text string) {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), append([]string{"verify", "--json"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if errs, err := urgent(t, cmd); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", cmd, err, errs, out.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return r, out.String()
}

// TestVerify compares the frames of programs that are built in many ways with those that the
// reference finds. None differs.
func TestVerify(t *testing.T) {
	t.Parallel()
	need.Root(t)
	all, seconds, agreement := programs(), "3", "0.98"
	if !testkit.IsNightly() {
		// TestPrograms compares the remaining ones with eu-stack.
		all, seconds = without(all, "hwexec", "hwstaticpie", "hwstripped", "hwaltstack", "hwthreads", "hwtrap"), "1"
		agreement = "0.94" // in a short run, the first moments count for more
	}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			// The program ends it when it has used `seconds` of CPU time.
			flags := []string{"--duration=1h", "--sample-rate=499", "--min-agreement=" + agreement, "--min-complete=0.94"}
			coverage := 0.9
			switch {
			case slices.Contains(p.flags, "-fno-asynchronous-unwind-tables"):
				refuses(t, append(flags, "--min-coverage=0.9", "--", p.build(t), seconds)...)
				return
			case slices.Contains(p.flags, "-DALTERNATE"):
				coverage = 0.2 // perf copies one stack, up to the interrupted function
			}
			r, text := verify(t, append(flags, "--min-coverage=0", "--", p.build(t), seconds)...)
			t.Logf("%+v", r)
			// Stacks for which perf had no room have no frames that could be checked.
			if least := coverage * (1 - float64(noRoom(r))/float64(max(1, r.UserStacks))); r.Coverage < least {
				t.Errorf("%.4f of the frames could be checked, less than %.4f\n%s", r.Coverage, least, text)
			}
			// 499 samples are due for each second. All that perf had room to copy are compared.
			if r.UserStacks < 200 || r.Stacks+noRoom(r) < r.UserStacks*95/100 || noRoom(r) > r.UserStacks/2 {
				t.Errorf("%d of %d stacks compared\n%s", r.Stacks, r.UserStacks, text)
			}
			// Stacks of the first moments may end early, and say so. None may be wrong.
			if r.FramesAgreed+r.FramesMissing != r.Frames || len(r.Disagreements) > 0 {
				t.Errorf("%d of %d frames agree, %d are missing\n%s", r.FramesAgreed, r.Frames, r.FramesMissing, text)
			}
		})
	}
}

// hardlyCompared is what verify says of a program without CFI. A sample of its start, in the
// dynamic linker, can be compared; where it has no rows yet, verify says that first.
var hardlyCompared = regexp.MustCompile(`no frame could be compared` +
	`|\b0\.0\d* of the frames could be checked, less than 0\.9`)

// refuses expects that verify finds too little to compare: the program's functions have no CFI.
func refuses(t *testing.T, args ...string) {
	t.Helper()
	out, err := urgent(t, exec.Command(rig.Binary(t), append([]string{"verify"}, args...)...))
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!hardlyCompared.MatchString(out) || !strings.Contains(out, "at the leaf: no_cfi") {
		t.Errorf("%v, want exit code 1: nothing to compare with\n%s", err, out)
	}
}

// noRoom returns how many stacks were not compared because perf's buffer was full.
func noRoom(r verified) uint64 { return r.NotComparable["perf's buffer had no room for the copy"] }

// hasPrograms reports whether a process has loaded BPF programs.
func hasPrograms(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(files, func(file string) bool {
		target, _ := os.Readlink(file)
		return strings.HasSuffix(target, "bpf-prog")
	})
}

// TestVerifyEnds requires that verify of one process leaves out all other processes, that an interrupt ends it with the
// report, and that its command ends with it.
func TestVerifyEnds(t *testing.T) {
	t.Parallel()
	need.Root(t)
	chain := rig.StartChain(t, rig.ChainProgram(t, "hwverify"), 3600)
	p := rig.Start(t, exec.Command(rig.Binary(t), "verify", "--duration=1h", "--min-coverage=0",
		fmt.Sprintf("--pid=%d", chain.PID())))
	p.Prioritize(t)
	testkit.Eventually(t, "verify has its BPF programs", func() bool { return hasPrograms(p.PID()) })
	used := func() time.Duration { return rig.CPUTime(t, fmt.Sprint(chain.PID())) }
	end := used() + time.Second
	testkit.Eventually(t, "the process has used 1 s of CPU time", func() bool { return used() >= end })
	p.Signal(t, syscall.SIGINT)
	if code := p.Wait(t, time.Minute); code != 0 || len(p.Output.Lines("frames compared", "agree, 100.000 %")) != 1 {
		t.Errorf("exit code %d\n%s", code, p.Output.Tail(100))
	}

	// How many stacks it checks within a second depends on how soon it gets a CPU.
	out, err := exec.Command(rig.Binary(t), "verify", "--duration=1s", "--min-coverage=0", "--min-complete=0", "--",
		"sh", "-c", "while :; do :; done").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// A process that is not there is an error, not an empty report.
	out, err = exec.Command(rig.Binary(t), "verify", "--pid=4194303").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 ||
		!bytes.Contains(out, []byte("process 4194303")) {
		t.Errorf("%v\n%s", err, out)
	}
}
