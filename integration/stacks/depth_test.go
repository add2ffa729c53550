package stacks

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestDepth profiles a program with stacks of walkedFrames user frames, the most that are
// walked. They are whole in the page's pprof file. Pyroscope keeps fewer locations of a
// stack: there, a frame in the middle says how many were cut.
func TestDepth(t *testing.T) {
	t.Parallel()
	host := sharedHost(t)
	rig.Start(t, deepProgram().forSeconds(endless)(t, t.TempDir()))
	// 100 samples: each must be right.
	const enough = 0.4e9
	var shown []rig.Stack
	testkit.Eventually(t, "100 samples of the program are in the page's pprof file", func() bool {
		shown = deepest(rig.Stacks(host.Download(t)))
		return rig.Total(shown) >= enough
	})
	checkWhole(t, inTime(t, shown))

	var kept []rig.Stack
	testkit.Eventually(t, "100 samples of the program were sent", func() bool {
		kept = deepest(host.of("host", deepCommand))
		return rig.Total(kept) >= enough
	})
	checkCut(t, inTime(t, kept))
}

// TestDepthInPyroscope has a server that keeps them.
func TestDepthInPyroscope(t *testing.T) {
	testkit.Nightly(t, "TestDepth looks at what is sent, this at what a server keeps")
	need.Root(t)
	server := rig.StartPyroscope(t)
	h := rig.StartHeadwater(t, rig.HostConfig(server.URL, "depth",
		"kernel_frames = false\n\tcollect_kernel_profile = false"))
	h.Prioritize(t)
	rig.Start(t, deepProgram().forSeconds(endless)(t, t.TempDir()))
	var kept []rig.Stack
	testkit.Eventually(t, "2 s of the program are in Pyroscope", func() bool {
		kept = deepest(rig.Stacks(server.Profile(t, rig.CPUProfile, `{service_name="depth"}`, time.Time{})))
		return rig.Total(kept) >= 2e9
	})
	checkCut(t, kept)
	if discarded := server.Discarded(t); discarded != "" {
		t.Errorf("the server has refused samples: %s", discarded)
	}
}

const deepCommand, deepCalls = "hwdepth", walkedFrames - 5

func deepProgram() starter {
	return runs(deepCommand, "rules/depth.c").withArguments(fmt.Sprint(deepCalls))
}

// deepForm is what the stacks of the program are by its source: one call below the other, from _start to burn.
var deepForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^" + deepCommand + ` _start __libc_start_main(?:_impl|@@\S+)? __libc_start_call_main main` +
		strings.Repeat(" down", deepCalls) + " burn$")
})

// deepest returns the stacks of the program at its leaf.
func deepest(all []rig.Stack) (found []rig.Stack) {
	for _, s := range rig.OfCommand(all, deepCommand) {
		if s.Frames[len(s.Frames)-1].Name == "burn" {
			found = append(found, s)
		}
	}
	return found
}

// checkWhole demands stacks with all of their frames.
func checkWhole(t testing.TB, all []rig.Stack) {
	t.Helper()
	for _, s := range all {
		if text := strings.Join(s.Names(), " "); !deepForm().MatchString(text) {
			t.Errorf("%d frames in the page's file, want %d: %s", len(s.Frames), 1+walkedFrames, brief([]rig.Stack{s}, 1))
		}
	}
}

// checkCut requires stacks of as many frames as Pyroscope keeps, with one frame in place of the missing ones.
func checkCut(t testing.TB, all []rig.Stack) {
	t.Helper()
	for _, s := range all {
		names := s.Names()
		missing, marks := 0, 0
		for i, name := range names {
			if match := framesCut.FindStringSubmatch(name); match != nil {
				fmt.Sscan(match[1], &missing)
				names[i], marks = strings.TrimSpace(strings.Repeat("down ", missing)), marks+1
			}
		}
		if text := strings.Join(names, " "); marks != 1 || len(s.Frames) != shownFrames || !deepForm().MatchString(text) {
			t.Errorf("%d frames in Pyroscope, want %d, %d of them marks, want 1, for %d frames: %s",
				len(s.Frames), shownFrames, marks, missing, brief([]rig.Stack{s}, 1))
		}
	}
}
