package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// TestFio profiles Debian's fio, which is stripped and has no frame pointers,
// with testdata/seed.river, and compares what Pyroscope then shows with the
// stacks that eu-stack tells of the same process: from _start through fio,
// libaio and libc to the system call and the kernel.
func TestFio(t *testing.T) { trial.Run(t, tryFio) }

func tryFio(t *trial.T) {
	requireRoot(t)
	requireTools(t, "eu-stack", "nm")
	server := startPyroscope(t)
	seed := strings.Replace(readFile(t, "testdata/seed.river"), "http://10.0.0.4:4040", server.url, 1)
	startHeadwater(t, seed)

	fio := startFio(t, 120)
	var workers []int
	eventually(t, 20*time.Second, "fio has a worker", func() bool {
		workers = children(t, fio.pid())
		return len(workers) == 1
	})
	native := nativeChains(t, workers[0], 10, "io_submit")

	var all []stack
	eventually(t, 60*time.Second, "5 s of fio are in Pyroscope", func() bool {
		p := server.profile(t, "host_cpu:cpu:nanoseconds:cpu:nanoseconds", `{service_name="host_cpu"}`, time.Time{})
		all = ofCommand(stacks(p), "fio")
		return total(all) >= 5e9
	})
	checkRoots(t, all)
	checkSubmits(t, all, native)
	if discarded := server.discarded(t); discarded != "" {
		t.Errorf("Pyroscope has refused something:\n%s", discarded)
	}
}

// checkRoots demands that the stacks reach the program's entry.
func checkRoots(t testing.TB, all []stack) {
	t.Helper()
	rooted := int64(0)
	var others []stack
	for _, s := range all {
		if len(s.frames) > 1 && s.frames[1].name == "_start" {
			rooted += s.value
		} else {
			others = append(others, s)
		}
	}
	if share := float64(rooted) / float64(total(all)); share < 0.99 {
		t.Errorf("only %.4f of fio's time hangs from _start; of the rest:\n%s", share, show(others, 5))
	}
}

// checkSubmits judges the stacks that go through io_submit: fio's part as
// eu-stack has it, then libaio, libc, and nothing but the kernel.
func checkSubmits(t testing.TB, all []stack, native []chain) {
	t.Helper()
	kernel := kernelSymbols(t)
	submits, known, inKernel := int64(0), int64(0), int64(0)
	best := false // whether eu-stack's most frequent stack was seen
	var strange []stack
	for _, s := range all {
		at := slices.IndexFunc(s.frames, func(f frame) bool { return f.name == "io_submit" })
		if at < 0 {
			continue
		}
		submits += s.value
		which := slices.IndexFunc(native, func(want chain) bool { return want.matches(s.frames[1:at]) })
		best = best || which == 0
		if which >= 0 {
			known += s.value
		} else {
			strange = append(strange, s)
		}
		if !strings.Contains(s.frames[at].file, "libaio.so") {
			t.Errorf("io_submit is not in libaio, but in %q", s.frames[at].file)
		}
		if checkSystemCall(t, s, s.frames[at+1:], kernel) {
			inKernel += s.value
		}
	}
	t.Logf("fio: %d ms, in io_submit %d ms, below a stack that eu-stack saw %d ms, in the kernel %d ms", total(all)/1e6, submits/1e6, known/1e6, inKernel/1e6)
	if submits < total(all)/4 {
		t.Errorf("io_submit has only %d of %d ms:\n%s", submits/1e6, total(all)/1e6, show(all, 5))
	}
	if !best {
		t.Errorf("the stack eu-stack finds most often is not in the profile:\n%v\nthere are\n%s", native[0], show(strange, 5))
	}
	if known < submits*9/10 {
		t.Errorf("%d of %d ms in io_submit are below stacks that eu-stack never saw:\n%s", (submits-known)/1e6, submits/1e6, show(strange, 5))
	}
	if inKernel < submits*3/4 {
		t.Errorf("only %d of %d ms in io_submit are in the kernel", inKernel/1e6, submits/1e6)
	}
}

// checkSystemCall judges the frames that io_submit calls: libc's syscall,
// and above it, if any, named functions of the kernel, io_submit's among them.
// It tells whether the stack reaches into the kernel.
func checkSystemCall(t testing.TB, s stack, callees []frame, kernel map[string]bool) bool {
	t.Helper()
	if len(callees) == 0 || callees[0].name != "syscall" {
		return false // io_submit itself, or the stub that it calls through
	}
	for _, f := range callees[1:] {
		if !kernel[f.name] {
			t.Errorf("%q above syscall is no function of the kernel, in %v", f.name, s)
			return false
		}
	}
	return slices.ContainsFunc(callees[1:], func(f frame) bool { return strings.Contains(f.name, "sys_io_submit") })
}
