package integration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// TestKernelFrames profiles one dd with three components at once: with both
// parts of the stack, with only the user's and with only the kernel's.
func TestKernelFrames(t *testing.T) { trial.Run(t, tryKernelFrames) }

func tryKernelFrames(t *trial.T) {
	requireRoot(t)
	server := startPyroscope(t)
	dd := startCopy(t)
	settings := map[string]string{
		"both":   "",
		"user":   "collect_kernel_profile = false",
		"kernel": "collect_user_profile = false",
	}
	config := fmt.Sprintf("pyroscope.write \"server\" {\n\tendpoint {\n\t\turl = %q\n\t}\n}\n", server.url)
	for name, setting := range settings {
		config += fmt.Sprintf(`
pyroscope.ebpf "%[1]s" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%[2]d", "service_name" = "dd-%[1]s"}]
	collect_interval = "1s"
	%[3]s
}
`, name, dd.pid(), setting)
	}
	startHeadwater(t, config)

	kernel := kernelSymbols(t)
	for name, check := range map[string]func(testing.TB, stack, int){
		"both":   kernelAboveUser,
		"user":   onlyUser,
		"kernel": onlyKernel,
	} {
		t.Run(name, func(t *trial.T) {
			var all []stack
			eventually(t, 30*time.Second, "3 s of dd are in Pyroscope", func() bool {
				p := server.profile(t, cpuProfile, fmt.Sprintf(`{service_name="dd-%s"}`, name), time.Time{})
				all = stacks(p)
				return total(all) >= 3e9
			})
			copying := int64(0)
			for _, s := range all {
				if s.frames[0].name != "dd" {
					t.Errorf("the root frame is %q, want the process's name", s.frames[0].name)
				}
				first := firstKernelFrame(s, kernel)
				check(t, s, first)
				if s.has("vfs_read") || hasRead(s) {
					copying += s.value
				}
			}
			if copying < total(all)/4 {
				t.Errorf("only %d of %d ms of dd are below read:\n%s", copying/1e6, total(all)/1e6, show(all, 5))
			}
		})
	}
}

// firstKernelFrame returns the index of the outermost frame of the kernel,
// or the number of frames where there is none. A frame of the kernel has one
// of its names and stands in no file of user space.
func firstKernelFrame(s stack, kernel map[string]bool) int {
	for i, f := range s.frames {
		if i > 0 && kernel[f.name] && !strings.HasPrefix(f.file, "/") {
			return i
		}
	}
	return len(s.frames)
}

// libcRead are the names of libc's read: by its exported symbols, and by its debug file.
var libcRead = regexp.MustCompile(`^(?:__GI_)?(?:__)?(?:libc_)?read$`)

func hasRead(s stack) bool {
	return slices.ContainsFunc(s.frames, func(f frame) bool { return libcRead.MatchString(f.name) })
}

func kernelAboveUser(t testing.TB, s stack, first int) {
	for _, f := range s.frames[first:] {
		if strings.HasPrefix(f.file, "/") {
			t.Errorf("%s of %s is called by the kernel, in %v", f.name, f.file, s)
		}
	}
	if s.has("vfs_read") && (!hasRead(s) || !s.has("_start") && !strings.HasPrefix(s.frames[1].name, "dd+0x")) {
		t.Errorf("the user part below vfs_read is not whole: %v", s)
	}
}

func onlyUser(t testing.TB, s stack, first int) {
	if first < len(s.frames) {
		t.Errorf("collect_kernel_profile is false, but there is %s in %v", s.frames[first].name, s)
	}
}

func onlyKernel(t testing.TB, s stack, first int) {
	if first != 1 {
		t.Errorf("collect_user_profile is false, but there is %s in %v", s.frames[1].name, s)
	}
}
