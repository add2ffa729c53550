package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
)

// ChainProgram builds testdata/chain under the given name of at most 15 bytes, which is also the process's name.
func ChainProgram(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, name)
	flags := append(slices.Clone(WithoutFramePointers), fmt.Sprintf("-DPROGRAM=%q", name))
	Compile(t, "gcc", append(flags, "-fPIC", "-shared",
		"-o", filepath.Join(dir, "libchain.so"), "../testkit/rig/testdata/chain/library.c")...)
	Compile(t, "gcc", append(flags,
		"-o", program, "../testkit/rig/testdata/chain/main.c", "-L"+dir, "-lchain", "-Wl,-rpath,$ORIGIN")...)
	return program
}

// StartChain runs a chain program, which ends by itself after some seconds.
func StartChain(t testing.TB, program string, seconds int) *Process {
	t.Helper()
	return Start(t, exec.Command(program, fmt.Sprint(seconds)))
}

// StartRestingChain is [StartChain] with a program that uses a quarter of a CPU, for tests that need few samples.
func StartRestingChain(t testing.TB, program string, seconds int) *Process {
	t.Helper()
	return Start(t, exec.Command(program, fmt.Sprint(seconds), "20000000", "3"))
}

// CheckChain waits for four seconds of CPU of the chain in the server, and
// judges each of its stacks.
func CheckChain(t testing.TB, server *Pyroscope, program string) {
	t.Helper()
	var all []Stack
	testkit.Eventually(t, "4 s of the chain are in Pyroscope", func() bool {
		p := server.Profile(t, CPUProfile, `{service_name="chain"}`, time.Time{})
		all = OfCommand(Stacks(p), filepath.Base(program))
		return Total(all) >= 4e9
	})
	JudgeChain(t, all, program)
}

// JudgeChain judges each stack of a chain program.
func JudgeChain(t testing.TB, all []Stack, program string) {
	t.Helper()
	inChain, complete := int64(0), int64(0)
	for _, s := range all {
		last, err := ChainDepth(s)
		if err != nil {
			t.Errorf("%v in %v", err, s)
		}
		if last >= 0 {
			inChain += s.Value
		}
		if last == 59 {
			complete += s.Value
		}
	}
	t.Logf("%d ms, %d ms in the chain, %d ms to its end", Total(all)/1e6, inChain/1e6, complete/1e6)
	if share := float64(inChain) / float64(Total(all)); share < 0.98 {
		t.Errorf("only %.4f of the program's time is in the chain:\n%s", share, Show(all, 5))
	}
	if share := float64(complete) / float64(inChain); share < 0.98 {
		t.Errorf("only %.4f of the chain's time is below f59:\n%s", share, Show(all, 5))
	}
	checkMappings(t, all, program)
}

var chainName = regexp.MustCompile(`^f[0-5][0-9]$`)

// InChain reports whether a function is one of the chain's, f00 to f59.
func InChain(name string) bool { return chainName.MatchString(name) }

// ChainDepth returns the number of the last function of the chain on a stack, or -1 if the chain is not on it. It
// returns an error if an earlier function is missing or in the wrong place, or if main does not call the first one.
func ChainDepth(s Stack) (int, error) {
	last := -1
	for i, f := range s.Frames {
		if !InChain(f.Name) {
			continue
		}
		if want := fmt.Sprintf("f%02d", last+1); f.Name != want {
			return last, fmt.Errorf("%s where %s is due", f.Name, want)
		}
		last++
		switch {
		case last == 0 && (i == 0 || s.Frames[i-1].Name != "main"):
			return last, fmt.Errorf("f00 is not called by main")
		case last == 40 && !strings.Contains(s.Frames[i-1].File, "libc.so"):
			return last, fmt.Errorf("f40 is not called by libc")
		case last != 0 && last != 40 && s.Frames[i-1].Name != fmt.Sprintf("f%02d", last-1):
			return last, fmt.Errorf("something stands between f%02d and f%02d", last-1, last)
		}
	}
	return last, nil
}

// checkMappings compares file and build ID of the frames with the files.
func checkMappings(t testing.TB, all []Stack, program string) {
	t.Helper()
	library := filepath.Join(filepath.Dir(program), "libchain.so")
	want := map[string]Frame{
		"f00": {"f00", program, BuildID(t, program)},
		"f59": {"f59", program, BuildID(t, program)},
		"f20": {"f20", library, BuildID(t, library)},
		"f39": {"f39", library, BuildID(t, library)},
	}
	wrong := map[Frame]bool{}
	for _, s := range all {
		for _, f := range s.Frames {
			if w, ok := want[f.Name]; ok && f != w && !wrong[f] {
				wrong[f] = true
				t.Errorf("frame %+v, want %+v", f, w)
			}
		}
	}
}
