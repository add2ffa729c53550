package retry

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAttempts: failures before the last attempt are forgiven, parts continue while another part ends, and each attempt
// runs its cleanups.
func TestAttempts(t *testing.T) {
	recorded := filepath.Join(t.TempDir(), "retries")
	t.Setenv(retriesFile, recorded)
	var events []string
	Run(t, func(t *T) {
		t.Cleanup(func() { events = append(events, "clean") })
		t.Run("part", func(t *T) {
			t.Cleanup(func() { events = append(events, "clean part") })
			if len(events) == 0 {
				t.Fatal("the first\ntime")
			}
		})
		events = append(events, "after part")
	})
	want := []string{"clean part", "after part", "clean", "clean part", "after part", "clean"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	got, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("TestAttempts: attempt 1 of 3 has failed\n\tpart: the first\n\ttime\n",
		string(got)); diff != "" {
		t.Errorf("recorded (-want +got)\n%s", diff)
	}
}

// TestFailure runs itself in a process of its own, to see it fail.
func TestFailure(t *testing.T) {
	if os.Getenv("TRIAL_FAILS") != "" {
		Run(t, func(t *T) { t.Run("part", func(t *T) { t.Fatalf("wrong by %d", 7) }) })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFailure$", "-test.v")
	cmd.Env = append(os.Environ(), "TRIAL_FAILS=1", retriesFile+"=") // these are no real ones
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), "part: wrong by 7") != attempts ||
		!strings.Contains(string(out), "--- FAIL: TestFailure") {
		t.Errorf("%v\n%s", err, out)
	}
}
