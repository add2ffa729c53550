package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
)

// burner is a program whose only busy function is called FUNCTION, in which it is a part of the time. It prints a line
// when it has run all of its code once: then no page of its file is missing, for which the file system could be asked.
const burner = `
#include <unistd.h>
__attribute__((noinline)) unsigned long FUNCTION(volatile unsigned long n) {
	unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * n;
	return sum;
}
int main(void) {
	FUNCTION(1000);
	usleep(1);
	if (write(1, "x", 1) != 1)
		return 1;
	for (;;) {
		FUNCTION(1000000);
		usleep(3000);
	}
}
`

// buildBurner builds a static program that is busy in a function.
func buildBurner(t *testing.T, dir, function string) (path string) {
	t.Helper()
	need.Tools(t, "gcc")
	path = filepath.Join(dir, function)
	source := path + ".c"
	if err := os.WriteFile(source, []byte(burner), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("gcc", "-O1", "-static", "-DFUNCTION="+function, "-o", path, source)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// runBurner runs a program until the test ends. It returns when the program is busy.
func runBurner(t *testing.T, path, root string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(path, args...)
	if root != "" {
		// This process does not start it: until a child has executed its program, Go cannot collect garbage in its
		// parent, so the server in this process might not serve that program.
		cmd = exec.Command("chroot", root, path)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, cmd)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// named reports whether a process that is busy in burn_in_the_light has samples since the last call, and whether all
// profiles that show them have the function's name.
func named(t *testing.T, s *Session, pid int) (samples uint64, named bool) {
	t.Helper()
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	named = true
	for _, p := range profiles {
		n, _ := of([]Profile{p}, uint32(pid))
		samples += n
		named = named && (n == 0 || slices.ContainsFunc(p.Pprof.Function, func(f *profile.Function) bool {
			return f.Name == "burn_in_the_light"
		}))
	}
	return samples, named
}

// round returns which functions a profile of some seconds shows, by the start of their names.
func round(t *testing.T, s *Session, prefixes ...string) map[string]bool {
	t.Helper()
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range profiles {
		for _, f := range p.Pprof.Function {
			for _, prefix := range prefixes {
				if strings.HasPrefix(f.Name, prefix) {
					found[prefix] = true
				}
			}
		}
	}
	return found
}

// patient is far longer than any work that does not wait for a hanging mount.
const patient = time.Minute

// within fails the test if f does not return.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
	case <-time.After(patient):
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s takes longer than %v\n%s", what, patient, stacks[:runtime.Stack(stacks, true)])
	}
}

// TestHangingMount has a program whose root and executable are on a file system that does not answer. Other programs
// have their names in every profile, a new program of the same file system and the end of the session are not delayed,
// and the names appear when it answers.
func TestHangingMount(t *testing.T) {
	t.Parallel()
	need.Root(t)
	dir := t.TempDir()
	dark, light := buildBurner(t, dir, "burn_in_the_dark"), buildBurner(t, dir, "burn_in_the_light")
	late := buildBurner(t, dir, "burn_too_late")
	content := map[string][]byte{}
	for _, path := range []string{dark, late} {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content[filepath.Base(path)] = program
	}
	server := fuse.Mount(t, dir, content)
	victim := runBurner(t, "/burn_in_the_dark", server.Dir)
	other := runBurner(t, light, "")
	server.Hang(t)

	var s *Session
	within(t, "the start", func() { s = start(t, Options{}) })
	checkRounds(t, s, other, "at the start")
	testkit.Eventually(t, "a file is late", func() bool { return s.Stats().FilesLate > 0 })
	testkit.Eventually(t, "names are said to be not ready", func() bool {
		round(t, s)
		return strings.Contains(notReady(s, "burn_in_the_dark"), "not ready: ")
	})

	server.Answer(t)
	testkit.Eventually(t, fmt.Sprintf("process %d, whose files can be read, has names", victim), func() bool {
		return round(t, s, "burn_in_the_dark")["burn_in_the_dark"]
	})

	runBurner(t, "/burn_too_late", server.Dir)
	server.DropCache(t) // the program waits for the server then, so not even SIGKILL ends it
	again, err := os.Open(filepath.Join(server.Dir, "burn_too_late"))
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	server.Hang(t)
	checkRounds(t, s, other, "while a new program begins")
	within(t, "the end", func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// checkRounds checks some rounds while the mount hangs: after another program has got its name, it has the name in all
// rounds.
func checkRounds(t *testing.T, s *Session, other int, when string) {
	t.Helper()
	const rounds, interval = 4, time.Second
	began, before := time.Now(), processTime(t)
	had := false
	for i := range rounds {
		time.Sleep(interval)
		testkit.Eventually(t, fmt.Sprintf("round %d %s shows the other program", i, when), func() (seen bool) {
			within(t, fmt.Sprintf("round %d %s", i, when), func() {
				samples, name := named(t, s, other)
				if had && !name {
					t.Errorf("round %d %s: another program has no names any more", i, when)
				}
				seen = samples > 0 && name
			})
			return seen
		})
		had = true
	}
	t.Logf("%s: %v of CPU time in %v, waiting for %v", when, processTime(t)-before, time.Since(began), s.Waiting())
}

// notReady returns why names of a file are not ready, "" if they are.
func notReady(s *Session, file string) string {
	for _, u := range s.Stats().Unnamed {
		if filepath.Base(u.File) == file && u.Reason != "named" {
			return u.Reason + ": " + u.Explain()
		}
	}
	return ""
}
