package stacks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
)

var (
	goFunction = regexp.MustCompile(`^([\w./]+)\(`)
	goLine     = regexp.MustCompile(`^\t(\S+\.(?:go|s)):(\d+)`)
)

// quitStacks returns "function file:line" of the frames of each goroutine, from one function on to the root, as the
// runtime prints them on SIGQUIT. Goroutines without that function are left out.
func quitStacks(output, from string) (stacks []string) {
	for block := range strings.SplitSeq(output, "\n\n") {
		var frames []string
		function := ""
		for line := range strings.Lines(block) {
			if match := goFunction.FindStringSubmatch(line); match != nil {
				function = match[1]
			}
			match := goLine.FindStringSubmatch(line)
			if match != nil && function != "" && (len(frames) > 0 || function == from) {
				frames = append(frames, fmt.Sprintf("%s %s:%s", function, filepath.Base(match[1]), match[2]))
			}
			if match != nil {
				function = "" // where it was created has no frame
			}
		}
		if len(frames) > 0 {
			stacks = append(stacks, fmt.Sprint(frames))
		}
	}
	return stacks
}

// TestSnapshotOfGo compares the stacks of eleven goroutines, each on a thread of its own, with those that the runtime
// prints on SIGQUIT: functions, inlined ones too, and lines.
func TestSnapshotOfGo(t *testing.T) {
	t.Parallel()
	const from = "main.read"
	const source = "testdata/snapshot/waits.go"
	program := compiled(t, filepath.Join(t.TempDir(), "waits"), []string{source}, "go", "build", "-buildvcs=false", "-o",
		output, source)
	server := startReady(t, program)
	var ours []string
	for _, thread := range takeSnapshot(t, server.PID()).Threads {
		if !thread.Whole {
			t.Errorf("thread %d is not whole: %s", thread.TID, thread.Reason)
		}
		var frames []string
		for _, f := range thread.ofKind("native") {
			if len(frames) > 0 || f.Function == from {
				frames = append(frames, fmt.Sprintf("%s %s:%d", f.Function, filepath.Base(f.File), f.Line))
			}
		}
		if len(frames) > 0 {
			ours = append(ours, fmt.Sprint(frames))
		}
	}
	compareDebuggers(t, server.PID())
	server.Signal(t, syscall.SIGQUIT)
	testkit.Eventually(t, "the server has ended", server.Ended)
	want := quitStacks(server.Output.String(), from)
	slices.Sort(ours)
	slices.Sort(want)
	if len(ours) != 11 || !slices.Equal(ours, want) {
		t.Errorf("stacks\n%s\nSIGQUIT has\n%s", strings.Join(ours, "\n"), strings.Join(want, "\n"))
	}
}
