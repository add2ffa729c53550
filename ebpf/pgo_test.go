package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/retrytest"
	"github.com/headwater/headwater/integration/need"
)

// TestPGO: go build takes a profile, and inlines what it shows as hot.
func TestPGO(t *testing.T) {
	need.Root(t)
	program := buildGo(t, "pgo", []string{"CGO_ENABLED=0"})
	retrytest.Run(t, func(t *retrytest.T) {
		o := DefaultOptions()
		o.Comm, o.SampleRate = CommNone, 397
		s := start(t, o)
		defer s.Close()
		cmd := exec.Command(program)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var parts []*profile.Profile
		defer cmd.Wait()
		defer cmd.Process.Kill()
		for _, p := range collect(t, s, uint32(cmd.Process.Pid), wantedSamples) {
			parts = append(parts, p.Pprof)
		}
		merged, err := profile.Merge(parts)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "cpu.pprof")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := merged.Write(file); err != nil {
			t.Fatal(err)
		}
		const inlined = "inlining call to mix"
		if said := decisions(t, "off"); strings.Contains(said, inlined) {
			t.Fatalf("without a profile: %s", said)
		}
		if said := decisions(t, path); !strings.Contains(said, inlined) {
			t.Errorf("with a profile: %s", said)
		}
	})
}

// decisions returns what the compiler says that it does with the program, with a profile or "off".
func decisions(t *retrytest.T, pgo string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-gcflags=-m", "-pgo="+pgo, "-o", program, "./testdata/golang/pgo")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestGoStartLines: functions of Go begin in the line that Go's own profiler says.
func TestGoStartLines(t *testing.T) {
	need.Root(t)
	program := buildGo(t, "plain", []string{"CGO_ENABLED=0"}, "-ldflags=-s -w")
	retrytest.Run(t, func(t *retrytest.T) {
		own := filepath.Join(t.TempDir(), "cpu.pprof")
		profiles := runGo(t, program, "3", own)
		file, err := os.Open(own)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		parsed, err := profile.Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{}
		for _, f := range parsed.Function {
			want[f.Name] = f.StartLine
		}
		equal := 0
		for _, p := range profiles {
			for f := range functionsOf(p.Pprof, program) {
				line, ok := want[f.Name]
				switch {
				case !ok || line == 0:
				case f.StartLine == line:
					equal++
				default:
					t.Errorf("%s begins in line %d, Go's profiler says %d", f.Name, f.StartLine, line)
				}
			}
		}
		if t.Logf("%d functions", equal); equal < 5 {
			t.Errorf("%d functions are in both profiles, want 5", equal)
		}
	})
}

// functionsOf returns the functions that lie in a program: others have a main.main too.
func functionsOf(p *profile.Profile, program string) map[*profile.Function]bool {
	functions := map[*profile.Function]bool{}
	for _, l := range p.Location {
		if l.Mapping == nil || l.Mapping.File != program {
			continue
		}
		for _, line := range l.Line {
			functions[line.Function] = true
		}
	}
	return functions
}
