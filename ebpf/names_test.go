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

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/language/v8"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// until collects until some location satisfies wanted.
func until(t *testing.T, s *Session, what string, wanted func(*profile.Location) bool) {
	t.Helper()
	collectUntil(t, s, "a frame shows "+what, func(more []Profile) bool {
		return slices.ContainsFunc(more, func(p Profile) bool { return slices.ContainsFunc(p.Pprof.Location, wanted) })
	})
}

// TestCompiledJustInTime names functions of node's compiler by the map that it writes, with V8's own names turned off.
func TestCompiledJustInTime(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "node")
	o := Options{}
	o.LanguagesOff = map[string]bool{v8.Name: true}
	const script = `function hotFunction(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i); return s; }
for (;;) hotFunction(1e6)`
	cmd := exec.Command("node", "--perf-basic-prof", "-e", script)
	cmd.Dir = t.TempDir() // it leaves a log there
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.Remove(fmt.Sprintf("/tmp/perf-%d.map", cmd.Process.Pid))
	}()
	s := start(t, only(o, uint32(cmd.Process.Pid)))
	defer s.Close()
	until(t, s, "hotFunction", func(l *profile.Location) bool {
		return l.Mapping.File == "[jit]" && strings.Contains(l.Line[0].Function.Name, "hotFunction")
	})
}

const inlinedCaller = `package main

import "os"

type state struct{ a, b uint64 }

func (s *state) mix(n uint64) { s.a = s.a*31 + n; s.b ^= s.a >> 3 }

//go:noinline
func outer(s *state) {
	for n := range uint64(1 << 20) {
		s.mix(n)
	}
}

func main() {
	s := &state{}
	for s.b != 1 {
		outer(s)
	}
	os.Exit(int(s.a))
}
`

// TestInlinedFrames shows the inlined functions of a stripped Go program, as lines of one location, with files and
// lines, unless that is turned off.
func TestInlinedFrames(t *testing.T) {
	t.Parallel()
	need.Root(t)
	const module = "module example.com/inlined\n\ngo 1.22\n"
	key := []string{runtime.Version(), strippedGo, module, inlinedCaller}
	dir := testkit.Fixture(t, "ebpf-inlined", key, func(dir string) error {
		for name, text := range map[string]string{"main.go": inlinedCaller, "go.mod": module} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		build := exec.Command("go", "build", strippedGo, "-o", "inlined", ".")
		build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := build.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	o := Options{}
	s := start(t, o)
	defer s.Close()
	cmd := exec.Command(filepath.Join(dir, "inlined"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	line := func(l profile.Line) string {
		return fmt.Sprintf("%s %s", l.Function.Name, filepath.Base(l.Function.Filename))
	}
	until(t, s, "main.(*state).mix in main.outer", func(l *profile.Location) bool {
		return len(l.Line) == 2 && line(l.Line[0]) == "main.(*state).mix main.go" && l.Line[0].Line == 7 &&
			line(l.Line[1]) == "main.outer main.go" && l.Line[1].Line == 12 && l.Mapping.HasInlineFrames
	})
	o.NoInlinedFrames = true
	if err := s.Update(o); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(); err != nil { // by the options before
		t.Fatal(err)
	}
	until(t, s, "main.outer alone", func(l *profile.Location) bool {
		for _, line := range l.Line {
			if line.Function.Name == "main.(*state).mix" {
				t.Fatalf("inlined frames are not wanted: %v", l.Line)
			}
		}
		return len(l.Line) == 1 && line(l.Line[0]) == "main.outer main.go" && l.Line[0].Line == 12
	})
}
