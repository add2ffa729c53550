package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestShortLived runs a short-lived script repeatedly: its samples have the names of its functions although it can no
// longer be read.
func TestShortLived(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	t.Parallel()
	const comm = "short-lived"
	python3 := filepath.Join(t.TempDir(), comm)
	if err := os.Symlink("/usr/bin/python3", python3); err != nil {
		t.Fatal(err)
	}
	runs := 80 // which have about 12 samples each
	if testkit.IsNightly() {
		runs = 400
	}
	session := start(t, ebpf.Options{})
	run := func() {
		if out, err := exec.Command(python3, "testdata/short.py").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	testkit.Eventually(t, "the interpreter's symbols are there", func() bool {
		run()
		return slices.ContainsFunc(collect(t, session)[comm], func(s sample) bool { return count(s.native, evaluation) > 0 })
	})
	for range runs {
		run()
	}
	inPython, named, known := 0, 0, 0
	for _, s := range collect(t, session)[comm] {
		n, native, python := s.n, s.native, s.python
		if count(native, evaluation) == 0 && len(python) == 0 {
			continue
		}
		inPython += n
		if len(python) > 0 {
			named += n
		}
		if whole := 0; len(python) > 0 {
			for _, f := range python {
				if f[0] != '[' {
					whole++
				}
			}
			if whole == len(python) {
				known += n
			}
		}
	}
	t.Logf("%d samples in Python, %d with frames of it, %d with names for all", inPython, named, known)
	want := 0.9 // where the profiler gets the CPU late, it comes too late for some processes
	if testkit.IsNightly() {
		want = 0.97
	}
	if inPython < 500 || float64(known) < want*float64(inPython) {
		t.Errorf("%d of %d samples are named, want %.0f %%", known, inPython, 100*want)
	}
}
