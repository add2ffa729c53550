package stacks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// closedProgram is a program that cannot have a library preloaded.
type closedProgram struct {
	name  string
	flags []string
	user  int // owner of the set-user-ID file; 0: no set-user-ID bit
}

func closedPrograms() []closedProgram {
	const nobody = 65534
	return []closedProgram{
		// perf's unwinder needs .eh_frame_hdr, which gcc leaves out of static programs.
		{name: "mixstatic", flags: []string{"-static", "-no-pie", "-Wl,--eh-frame-hdr"}},
		{name: "mixstaticpie", flags: []string{"-static-pie", "-fPIE"}},
		{name: "mixsetuid", user: nobody},
	}
}

func (p closedProgram) build(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), p.name)
	rig.Compile(t, "g++", slices.Concat(rig.WithoutFramePointers, p.flags,
		[]string{"-o", path, "testdata/programs/mixture.cc"})...)
	if p.user != 0 {
		if err := os.Chown(path, p.user, -1); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// falseAlarms is the probability that the test of distributions fails without an error.
const falseAlarms = 0.001

// distribution compares the stacks of a program with perf's for some seconds. It returns
// the report as JSON and as text.
func distribution(t testing.TB, binary, program, seconds string, alpha float64) (report json.RawMessage, text string,
	err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.Command(binary, "-seconds", seconds, "-alpha", fmt.Sprint(alpha), "-json", path, "--", program, "600")
	out, err := cmd.CombinedOutput()
	report, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return report, string(out), err
}

// TestDistributions compares the stacks of programs that cannot have a library preloaded with the stacks that perf
// unwinds from copies of the stack, by a permutation test. HEADWATER_DISTRIBUTIONS is the number of seconds for each; 6
// by default.
func TestDistributions(t *testing.T) {
	testkit.Nightly(t, "TestVerify and TestPrograms compare static programs with a reference and with eu-stack")
	need.Root(t)
	need.Tools(t, "perf", "g++")
	seconds := cmp.Or(os.Getenv("HEADWATER_DISTRIBUTIONS"), "6")
	save := record.Test(t, "distributions", "make -C integration distributions LOAD_SECONDS="+seconds)
	binary := buildWith(t, "./integration/lab/distribution", nil)
	all, reports := closedPrograms(), map[string]json.RawMessage{}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			report, text, err := distribution(t, binary, p.build(t), seconds, falseAlarms/float64(len(all)))
			t.Log(text)
			if err != nil {
				t.Error(err)
			}
			reports[p.name] = report
		})
	}
	save(reports)
}

// TestDistributionsNotice demands that the comparison notices a profiler with a defect.
func TestDistributionsNotice(t *testing.T) {
	testkit.Nightly(t, "it tests how TestDistributions compares, with profilers that have defects")
	need.Root(t)
	need.Tools(t, "perf", "g++")
	program := closedPrograms()[0].build(t)
	for name, m := range mutations() {
		t.Run(name, func(t *testing.T) {
			_, text, err := distribution(t, buildWith(t, "./integration/lab/distribution", &m), program, "6", falseAlarms)
			t.Log(text)
			if err == nil || !strings.Contains(text, "the distributions differ") {
				t.Errorf("the defect went unnoticed: %v", err)
			}
		})
	}
}
