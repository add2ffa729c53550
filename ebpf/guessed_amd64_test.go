package ebpf

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestGuessed: stacks that the frame pointer alone leads through code of no file say so, and are not whole. Stacks that
// the code itself leads through are.
func TestGuessed(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	for name, guesses := range map[string]bool{"mixed": true, "jitted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "hw"+name)
			// burn is compiled to keep rbp as its caller has it.
			build := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-o", program,
				"../integration/stacks/testdata/rules/"+name+".c")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			pid := testkit.Run(t, exec.Command(program, "600"))
			s := start(t, only(identityOptions(), pid)) // there may be others that make code
			defer s.Close()
			settle(t, s, pid)
			marked, unmarked := 0, 0
			collectUntil(t, s, "there are stacks through code of no file", func(more []Profile) bool {
				for _, p := range more {
					for _, sample := range ofPID(p, pid) {
						names := frameNames(sample)
						at := slices.Index(names, "[guessed: frame_pointer]")
						switch through := slices.Index(names, "[unknown]"); {
						case through < 0 || endsUnready(names):
						case at == through+1:
							marked++
						case at < 0:
							unmarked++
						default:
							t.Errorf("the mark is elsewhere: %v", names)
						}
					}
					if guesses && p.Complete > p.Samples/2 {
						t.Errorf("%d of %d samples count as whole", p.Complete, p.Samples)
					}
				}
				return marked+unmarked >= 3
			})
			guessed := s.Stats().Guessed
			t.Logf("%d stacks with the mark, %d without, %d samples counted", marked, unmarked, guessed)
			if guesses && (unmarked > 0 || guessed == 0) || !guesses && (marked > 0 || guessed > 0) {
				t.Errorf("%d stacks with the mark, %d without, %d samples counted", marked, unmarked, guessed)
			}
		})
	}
}
