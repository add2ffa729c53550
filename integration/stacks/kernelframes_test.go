package stacks

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestKernelFrames profiles one dd with three components at once: with both
// parts of the stack, with only the user's and with only the kernel's.
func TestKernelFrames(t *testing.T) {
	t.Parallel()
	host := sharedHost(t)
	host.run(t, "dd")
	kernel := rig.KernelSymbols(t)
	for name, check := range map[string]func(testing.TB, rig.Stack, int){
		"both":   kernelAboveUser,
		"user":   onlyUser,
		"kernel": onlyKernel,
	} {
		t.Run(name, func(t *testing.T) {
			all := inTime(t, host.untilOf(t, "dd-"+name, "dd", 3*time.Second*97/sharedRate))
			copying := int64(0)
			for _, s := range all {
				first := firstKernelFrame(s, kernel)
				check(t, s, first)
				if s.Has("vfs_read") || hasRead(s) {
					copying += s.Value
				}
			}
			if copying < rig.Total(all)/4 {
				t.Errorf("only %d of %d ms of dd are below read:\n%s", copying/1e6, rig.Total(all)/1e6, rig.Show(all, 5))
			}
			for _, profile := range host.receiver.Profiles("dd-" + name) {
				for _, s := range rig.Stacks(profile) {
					if s.Frames[0].Name != "dd" {
						t.Errorf("the root frame is %q, want the process's name", s.Frames[0].Name)
					}
				}
			}
		})
	}
}

// firstKernelFrame returns the index of the outermost frame of the kernel, or the number of
// frames of a stack without one. A frame of the kernel has the name of one of its functions
// and no file of user space.
func firstKernelFrame(s rig.Stack, kernel map[string]bool) int {
	for i, f := range s.Frames {
		if i > 0 && kernel[f.Name] && !strings.HasPrefix(f.File, "/") {
			return i
		}
	}
	return len(s.Frames)
}

// libcRead are the names of libc's read: by its exported symbols, and by its debug file.
var libcRead = regexp.MustCompile(`^(?:__GI_)?(?:__)?(?:libc_)?read$`)

func hasRead(s rig.Stack) bool {
	return slices.ContainsFunc(s.Frames, func(f rig.Frame) bool { return libcRead.MatchString(f.Name) })
}

func kernelAboveUser(t testing.TB, s rig.Stack, first int) {
	for _, f := range s.Frames[first:] {
		if strings.HasPrefix(f.File, "/") {
			t.Errorf("%s of %s is called by the kernel, in %v", f.Name, f.File, s)
		}
	}
	// Names of a file that takes long to read come some rounds later.
	unnamed := strings.HasPrefix(s.Frames[first-1].Name, "libc.so.6+0x")
	if s.Has("vfs_read") && (!hasRead(s) && !unnamed ||
		!s.Has("_start") && !strings.HasPrefix(s.Frames[1].Name, "dd+0x")) {
		t.Errorf("the user part below vfs_read is not whole: %v", s)
	}
}

func onlyUser(t testing.TB, s rig.Stack, first int) {
	if first < len(s.Frames) {
		t.Errorf("collect_kernel_profile is false, but there is %s in %v", s.Frames[first].Name, s)
	}
}

func onlyKernel(t testing.TB, s rig.Stack, first int) {
	if first != 1 {
		t.Errorf("collect_user_profile is false, but there is %s in %v", s.Frames[1].Name, s)
	}
}
