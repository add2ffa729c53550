package python

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// instantReport is the relevant part of the report of integration/lab/instant.
type instantReport struct {
	Python struct {
		Stacks   int      `json:"stacks"`
		Equal    int      `json:"stacks_equal"`
		Frames   int      `json:"frames"`
		NoLine   int      `json:"frames_without_line"`
		Unshown  int      `json:"stacks_not_shown"`
		NoLeaf   int      `json:"stacks_without_leaf"`
		NoSample int      `json:"dumps_without_sample"`
		Wrong    int      `json:"stacks_wrong"`
		NoName   int      `json:"frames_without_name"`
		Crashed  int      `json:"dumps_crashed"`
		Examples []string `json:"examples"`
	} `json:"python"`
}

// TestSameInstant compares the Python functions of samples, with their files and lines, with
// what Python's own module faulthandler says in the same thread at the same instruction.
func TestSameInstant(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "python3")
	if runtime.GOARCH != "amd64" {
		t.Skip("the preloaded library is for amd64")
	}
	t.Parallel()
	works, seconds, atLeast := []string{"server", "loops", "processes", "callbacks"}, "1.5", int64(2000)
	if testkit.IsNightly() {
		works, seconds, atLeast = append(works, "compiling", "texts", "objects"), "8", 3000
	}
	binary := filepath.Join(t.TempDir(), "instant")
	if out, err := exec.Command("go", "build", "-C", "../lab", "-o", binary, "./instant").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	library, err := filepath.Abs("testdata/library.py")
	if err != nil {
		t.Fatal(err)
	}
	var stacks, frames atomic.Int64
	t.Cleanup(func() { // all parts have ended
		t.Logf("%d stacks of %d frames", stacks.Load(), frames.Load())
		if frames.Load() < atLeast && !t.Failed() {
			t.Errorf("%d frames were compared, want %d", frames.Load(), atLeast)
		}
	})
	for _, work := range works {
		t.Run(work, func(t *testing.T) {
			t.Parallel()
			report := filepath.Join(t.TempDir(), "report.json")
			// faulthandler's work for a sample takes some of the 5 ms between two samples: at a higher rate the program
			// would hardly make progress.
			cmd := exec.Command(binary, "-python", "-rate", "199", "-json", report, "--",
				"/usr/bin/python3", library, work, seconds)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			b, err := os.ReadFile(report)
			if err != nil {
				t.Fatal(err)
			}
			var all instantReport
			if err := json.Unmarshal(b, &all); err != nil {
				t.Fatal(err)
			}
			r := all.Python
			t.Logf("%d stacks, %d equal; %d frames, %d of them without a line, %d without a name; "+
				"%d stacks not shown, %d without the leaf; dumps: %d without a sample, %d crashed",
				r.Stacks, r.Equal, r.Frames, r.NoLine, r.NoName, r.Unshown, r.NoLeaf, r.NoSample, r.Crashed)
			if r.Wrong > 0 || r.Stacks < 20 {
				t.Errorf("%d of %d stacks are wrong:\n%s", r.Wrong, r.Stacks, strings.Join(r.Examples, "\n"))
			}
			most := r.Stacks/10 + 5 // a busy machine may be late to read the interpreter, and each function for the first time
			if testkit.IsNightly() {
				most = r.Stacks/50 + 2
			}
			if r.Unshown > most || r.NoLeaf > most || r.NoLine > r.Frames/50+50 ||
				r.NoName > r.Frames/1000+5 {
				t.Errorf("%d of %d stacks are not shown, %d lack the leaf; of %d frames %d have no line, %d no name",
					r.Unshown, r.Stacks, r.NoLeaf, r.Frames, r.NoLine, r.NoName)
			}
			stacks.Add(int64(r.Stacks))
			frames.Add(int64(r.Frames))
		})
	}
}
