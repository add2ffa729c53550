package stacks

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestSnapshotOf32Bit compares a stripped 32-bit program without frame pointers with gdb, by address: a handler of a
// signal that interrupted 900 frames and qsort, and a thread. gdb does not say which file the vdso is.
func TestSnapshotOf32Bit(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gdb", multilib)
	rig.Need32Bit(t)
	program := filepath.Join(t.TempDir(), "hwcompat")
	flags := append(slices.Clone(rig.WithoutFramePointers), "-m32", "-s", "-pthread", "-o", program,
		"testdata/programs/compat.c")
	rig.Compile(t, "gcc", flags...)
	process := rig.Start(t, exec.Command(program))
	var s snapshot
	testkit.Eventually(t, "both threads wait", func() bool {
		s = takeSnapshot(t, process.PID())
		running := func(thread snapshotThread) bool { return thread.State != "sleeping" }
		return len(s.Threads) == 2 && len(s.Threads[0].ofKind("native")) > 900 && !slices.ContainsFunc(s.Threads, running)
	})

	debugger := gdbAddresses(t, process.PID())
	vdso := func(address string) bool { return address == "" || strings.HasPrefix(address, "[vdso]") }
	for _, thread := range s.Threads {
		if !thread.Whole {
			t.Errorf("thread %d is not whole: %s", thread.TID, thread.Reason)
		}
		ours := slices.DeleteFunc(thread.addresses(t), vdso)
		theirs := slices.DeleteFunc(debugger[thread.TID], vdso)
		if len(theirs) < 3 || !slices.Equal(ours, theirs) {
			t.Errorf("thread %d: frames\n%v, gdb has\n%v", thread.TID, ours, theirs)
		}
	}
	trampoline := func(f snapshotFrame) bool { return strings.HasSuffix(f.Function, "sigreturn") }
	if !slices.ContainsFunc(s.Threads[0].Frames, trampoline) {
		t.Error("the first thread has no frame of the signal")
	}
}
