package stacks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// TestDepth profiles a program with stacks of walkedFrames user frames, the most that are
// walked. They are whole in the page's pprof file. Pyroscope keeps fewer locations of a
// stack: there, a frame in the middle says how many were cut.
func TestDepth(t *testing.T) { retry.Run(t, tryDepth) }

func tryDepth(t *retry.T) {
	need.Root(t)
	const program, calls = "hwdepth", walkedFrames - 5
	server := lab.StartPyroscope(t)
	cmd := runs(program, "rules/depth.c").forSeconds("8").withArguments(fmt.Sprint(calls))(t, t.TempDir())
	h := lab.StartHeadwater(t, lab.HostConfig(server.URL, "depth",
		"kernel_frames = false\n\tcollect_kernel_profile = false"))
	lab.Start(t, cmd)

	// As the source says: one call below the other, from _start to burn.
	whole := program + " ROOT" + strings.Repeat(" down", calls) + " burn"
	form := stacksOf{}.expand("^" + strings.Replace(whole, "ROOT",
		"_start __libc_start_main(?:_impl|@@\\S+)? __libc_start_call_main main", 1) + "$")
	atLeaf := func(all []lab.Stack) (found []lab.Stack) {
		for _, s := range lab.OfCommand(all, program) {
			if names := s.Names(); names[len(names)-1] == "burn" {
				found = append(found, s)
			}
		}
		return found
	}
	var shown []lab.Stack
	testkit.Eventually(t, "2 s of the program are in the page's pprof file", func() bool {
		shown = atLeaf(lab.Stacks(h.Download(t)))
		return lab.Total(shown) >= 2e9
	})

	for _, s := range shown {
		if text := strings.Join(s.Names(), " "); !form.MatchString(text) {
			t.Errorf("%d frames in the page's file, want %d: %s", len(s.Frames), 1+walkedFrames, brief([]lab.Stack{s}, 1))
		}
	}

	var kept []lab.Stack
	testkit.Eventually(t, "2 s of the program are in Pyroscope", func() bool {
		kept = atLeaf(lab.Stacks(server.Profile(t, lab.CPUProfile, `{service_name="depth"}`, time.Time{})))
		return lab.Total(kept) >= 2e9
	})

	for _, s := range kept {
		names := s.Names()
		missing, marks := 0, 0
		for i, name := range names {
			if match := framesCut.FindStringSubmatch(name); match != nil {
				fmt.Sscan(match[1], &missing)
				names[i], marks = strings.TrimSpace(strings.Repeat("down ", missing)), marks+1
			}
		}
		if text := strings.Join(names, " "); marks != 1 || len(s.Frames) != shownFrames || !form.MatchString(text) {
			t.Errorf("%d frames in Pyroscope, want %d, %d of them marks, want 1, for %d frames: %s",
				len(s.Frames), shownFrames, marks, missing, brief([]lab.Stack{s}, 1))
		}
	}
	if discarded := server.Discarded(t); discarded != "" {
		t.Errorf("the server has refused samples: %s", discarded)
	}
}
