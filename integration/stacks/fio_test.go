package stacks

import (
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestFio profiles Debian's fio, which is stripped and has no frame pointers, with testdata/seed.river, and compares
// the profiles sent to Pyroscope with the stacks that eu-stack prints of the same process: from _start through fio,
// libaio and libc to the system call and the kernel.
func TestFio(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "eu-stack", "nm", "fio")
	receiver := rig.StartReceiver(t)
	seed := strings.Replace(rig.ReadFile(t, "testdata/seed.river"), "http://10.0.0.4:4040", receiver.URL, 1)
	h := rig.LaunchHeadwater(t, seed, nil)
	h.Prioritize(t)
	h.WaitReady(t)

	fio := rig.StartFio(t, 600)
	var workers []int
	testkit.Eventually(t, "fio has a worker", func() bool {
		workers = rig.Children(t, fio.PID())
		return len(workers) == 1
	})

	native := nativeChains(t, workers[0], 20, "io_submit")

	var all []rig.Stack
	testkit.Eventually(t, "5 s of fio have arrived", func() bool {
		all = nil
		for _, profile := range receiver.Profiles("host_cpu") {
			all = append(all, rig.OfCommand(rig.Stacks(profile), "fio")...)
		}
		return rig.Total(all) >= 5e9
	})

	all = inTime(t, all)
	checkRoots(t, all)
	checkSubmits(t, all, native)
}

// roots are the first functions of stacks: the dynamic linker's entry, which runs the initialization of libraries, the
// program's entry, and the entries of threads.
var roots = []string{"_dl_start_user", "_start", "clone3", "__clone3"}

// checkRoots demands that the stacks reach the program's entry.
func checkRoots(t testing.TB, all []rig.Stack) {
	t.Helper()
	rooted := int64(0)
	var others []rig.Stack
	for _, s := range all {
		if len(s.Frames) > 1 && slices.Contains(roots, s.Frames[1].Name) {
			rooted += s.Value
		} else {
			others = append(others, s)
		}
	}
	if share := float64(rooted) / float64(rig.Total(all)); share < 0.99 {
		t.Errorf("only %.4f of fio's time hangs from an entry; of the rest:\n%s", share, rig.Show(others, 5))
	}
}

// checkSubmits judges the stacks that go through io_submit: fio's part as in eu-stack, then libaio, libc, and only the
// kernel.
func checkSubmits(t testing.TB, all []rig.Stack, native []chain) {
	t.Helper()
	kernel := rig.KernelSymbols(t)
	submits, known, inKernel := int64(0), int64(0), int64(0)
	best := false // whether eu-stack's most frequent stack was seen
	var strange []rig.Stack
	for _, s := range all {
		at := slices.IndexFunc(s.Frames, func(f rig.Frame) bool { return f.Name == "io_submit" })
		if at < 0 || s.IsUnready() {
			continue
		}
		submits += s.Value
		which := slices.IndexFunc(native, func(want chain) bool { return want.matches(s.Frames[1:at]) })
		best = best || which == 0
		if which >= 0 {
			known += s.Value
		} else {
			strange = append(strange, s)
		}
		if !strings.Contains(s.Frames[at].File, "libaio.so") {
			t.Errorf("io_submit is not in libaio, but in %q", s.Frames[at].File)
		}
		if checkSystemCall(t, s, s.Frames[at+1:], kernel) {
			inKernel += s.Value
		}
	}
	t.Logf("fio: %d ms, in io_submit %d ms, below a stack that eu-stack saw %d ms, in the kernel %d ms",
		rig.Total(all)/1e6, submits/1e6, known/1e6, inKernel/1e6)
	if submits < rig.Total(all)/4 {
		t.Errorf("io_submit has only %d of %d ms:\n%s", submits/1e6, rig.Total(all)/1e6, rig.Show(all, 5))
	}
	if !best {
		t.Errorf("the stack eu-stack finds most often is not in the profile:\n%v\nthere are\n%s",
			native[0], rig.Show(strange, 5))
	}
	if known < submits*9/10 {
		t.Errorf("%d of %d ms in io_submit are below stacks that eu-stack never saw:\n%s",
			(submits-known)/1e6, submits/1e6, rig.Show(strange, 5))
	}
	if inKernel < submits*3/4 {
		t.Errorf("only %d of %d ms in io_submit are in the kernel", inKernel/1e6, submits/1e6)
	}
}

// checkSystemCall judges the frames that io_submit calls: libc's syscall,
// and above it, if any, named functions of the kernel, io_submit's among them.
// It reports whether the stack reaches into the kernel.
func checkSystemCall(t testing.TB, s rig.Stack, callees []rig.Frame, kernel map[string]bool) bool {
	t.Helper()
	if len(callees) == 0 || callees[0].Name != "syscall" {
		return false // io_submit itself, or the stub that it calls through
	}
	for _, f := range callees[1:] {
		if !kernel[f.Name] {
			t.Errorf("%q above syscall is no function of the kernel, in %v", f.Name, s)
			return false
		}
	}
	return slices.ContainsFunc(callees[1:], func(f rig.Frame) bool { return strings.Contains(f.Name, "sys_io_submit") })
}
