package ebpf

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestGuessed: where analysis of the code leads through code of no file, stacks are whole and have all callers. Where
// only the frame pointer does, stacks say so and are not whole; where the call that it leads to is of another function,
// they end.
func TestGuessed(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	for name, test := range map[string]struct {
		program string
		flags   []string
		want    []string // a function and its callers
		whole   bool
	}{
		"followed": {"mixed", nil, []string{"burn", "[unknown]", "[unknown]", "[unknown]", "main"}, true},
		"guessed": {"mixed", []string{"-DHIDDEN"},
			[]string{"burn", "[unknown]", "[guessed: frame_pointer]", "[unknown]", "main"}, false},
		"another is called": {"mixed", []string{"-DHIDDEN", "-DDIRECT"},
			[]string{"burn", "[unknown]", "[incomplete: no_call]"}, false},
		"without frame pointers": {"jitted", nil, []string{"[unknown]", "main"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "hw"+test.program)
			// burn is compiled to keep rbp as its caller has it.
			build := exec.Command("gcc", append([]string{"-O2", "-fomit-frame-pointer", "-o", program,
				"../integration/stacks/testdata/rules/" + test.program + ".c"}, test.flags...)...)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			pid := testkit.Run(t, exec.Command(program, "600"))
			s := start(t, only(identityOptions(), pid)) // other processes may generate code
			defer s.Close()
			settle(t, s, pid)
			through := 0
			collectUntil(t, s, "there are stacks through code of no file", func(more []Profile) bool {
				for _, p := range more {
					for _, sample := range ofPID(p, pid) {
						names := frameNames(sample)
						if !slices.Contains(names, "[unknown]") || endsUnready(names) {
							continue
						}
						at := slices.Index(names, test.want[0])
						if at < 0 {
							continue // in the generated code itself
						}
						if through++; !slices.Equal(names[at:min(at+len(test.want), len(names))], test.want) {
							t.Errorf("%v, want %v", names, test.want)
						}
					}
					if !test.whole && p.Complete > p.Samples/2 {
						t.Errorf("%d of %d samples count as whole", p.Complete, p.Samples)
					}
				}
				return through >= 3
			})
			if guessed := s.Stats().Guessed; name == "guessed" && guessed == 0 || test.whole && guessed > 0 {
				t.Errorf("%d samples count as guessed", guessed)
			}
		})
	}
}
