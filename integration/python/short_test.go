package python

import (
	"os/exec"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestShortLived runs a script that lives for a moment, again and again: its samples have the
// names of its functions although nobody can ask it any more.
func TestShortLived(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	p := profileOf(t, func() {
		for range 200 {
			if out, err := exec.Command("/usr/bin/python3", "testdata/short.py").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
	inPython, named, known := 0, 0, 0
	for _, s := range p.Sample {
		native, python := framesOf(s)
		if count(native, evaluation) == 0 && len(python) == 0 {
			continue
		}
		n := int(s.Value[0] / p.Period)
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
	if inPython < 500 || float64(known) < 0.97*float64(inPython) {
		t.Errorf("%d of %d samples are named, want 97 %%", known, inPython)
	}
}
