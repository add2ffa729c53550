// Package java compares what stacks of Java programs show with what their VM says itself.
package java

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	language "github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/jvm"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
	"github.com/headwater/headwater/integration/testkit/rig"
	"github.com/headwater/headwater/integration/testkit/walks"
)

func TestMain(m *testing.M) { rig.Main(m) }

// compile compiles a program for Java 8 and later, and returns where its classes are.
func compile(t *testing.T, source string) (classes string) {
	t.Helper()
	need.Root(t)
	need.Tools(t, "gcc", "java", "javac")
	if runtime.GOARCH != "amd64" {
		t.Skip("code of Java VMs is known on x86-64 only")
	}
	classes = t.TempDir()
	cmd := exec.Command("javac", "-nowarn", "-Xlint:-options", "--release", "8", "-d", classes, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return classes
}

// report is the relevant part of the report of integration/lab/instant.
type report struct {
	Stacks      int            `json:"stacks"`
	Frames      int            `json:"frames"`
	Agreed      int            `json:"frames_agreed"`
	Interpreted int            `json:"frames_interpreted"`
	NoName      int            `json:"frames_interpreted_without_name"`
	Differ      map[string]int `json:"stacks_differ"`
	NotCompared map[string]int `json:"stacks_not_compared"`
}

// TestSameInstant compares the methods that the VM's interpreter runs, with their files and lines, with what HotSpot's
// AsyncGetCallTrace finds in the same thread at the same instruction.
func TestSameInstant(t *testing.T) {
	testkit.Nightly(t, "on a busy machine the VM's memory is read too late; TestJavaStacks checks chains of methods")
	classes := compile(t, "../lab/instant/testdata/java/Mix.java")
	binary := filepath.Join(t.TempDir(), "instant")
	if out, err := exec.Command("go", "build", "-C", "../lab", "-o", binary, "./instant").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, java := range testkit.Javas() {
		for _, work := range []string{"streams", "lambdas", "exceptions", "reflection"} {
			t.Run(filepath.Base(java)+" "+work, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "report.json")
				// On a busy machine the VM's memory may be too slow for the profiler to have its code in these seconds.
				retry.Run(t, func(t *retry.T) {
					trySameInstant(t, path, binary, "-java", "-rate", "997", "-json", path, "--",
						java, "-Xint", "-Xmx128m", "-cp", classes, "Mix", work, "3")
				})
			})
		}
	}
}

// trySameInstant runs a command of integration/instant and judges its report.
func trySameInstant(t *retry.T, path string, command ...string) {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	b, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatalf("%v, %v\n%s", readErr, err, out)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d stacks; %d interpreted frames agree, %d have no name; not compared: %v",
		r.Stacks, r.Interpreted, r.NoName, r.NotCompared)
	if err != nil || r.Agreed != r.Frames {
		t.Errorf("%v: of %d frames %d agree, stacks differ: %v\n%s", err, r.Frames, r.Agreed, r.Differ, out)
	}
	if r.Stacks < 20 || r.Interpreted < 300 || r.NoName > r.Interpreted {
		t.Errorf("of %d stacks %d interpreted frames agree, %d have no name", r.Stacks, r.Interpreted, r.NoName)
	}
}

// TestUnloading: a method at the address of an unloaded method has its own name. The thread of the program has the name
// of the class whose methods it runs.
func TestUnloading(t *testing.T) {
	classes := compile(t, "testdata/Unload.java")
	s, err := walks.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.Command("sh", "-c", `read go && exec java "$@"`, "sh",
		"-Xint", "-Xmx32m", "-XX:+UseSerialGC", "-cp", classes, "Unload", classes, "1000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	clock := walks.ClockOf(997)
	clock.Bits |= unix.PerfBitInherit
	event, err := s.Sample(clock, cmd.Process.Pid)
	if err != nil {
		cmd.Process.Kill()
		t.Fatal(err, cmd.Wait())
	}
	defer unix.Close(event)
	in.Write([]byte("\n"))
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	all, err := s.Stop()
	if err != nil {
		t.Fatal(err)
	}
	frames, names := 0, map[string]bool{}
	for _, w := range all {
		for _, f := range w.Functions {
			class, method, _ := strings.Cut(f.Name, ".")
			if !strings.HasPrefix(class, "Work") {
				continue
			}
			frames++
			if names[class] = true; class != w.Comm {
				t.Errorf("%s.%s while the methods of %s run", class, method, w.Comm)
			}
		}
	}
	t.Logf("%d frames in %d classes", frames, len(names))
	if frames < 300 || len(names) < 50 {
		t.Errorf("%d frames in %d classes, want 300 in 50", frames, len(names))
	}
}

// TestUnloads: the number of classes that went from a VM is the one that jcmd prints.
func TestUnloads(t *testing.T) {
	classes := compile(t, "testdata/Unload.java")
	need.Tools(t, "jcmd")
	for _, java := range testkit.Javas() {
		t.Run(filepath.Base(java), func(t *testing.T) {
			cmd := exec.Command(java, "-Xmx32m", "-XX:+UseSerialGC", "-cp", classes, "Unload", classes, "1000000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			printed := func() uint64 {
				out, err := exec.Command("jcmd", strconv.Itoa(cmd.Process.Pid), "PerfCounter.print").Output()
				_, after, _ := strings.Cut(string(out), "java.cls.unloadedClasses=")
				line, _, _ := strings.Cut(after, "\n")
				n, parseErr := strconv.ParseUint(line, 10, 64)
				if err != nil || parseErr != nil {
					return 0 // it has just started
				}
				return n
			}
			var before uint64
			for deadline := time.Now().Add(time.Minute); before == 0 && time.Now().Before(deadline); {
				before = printed()
			}
			ours := unloaded(t, uint32(cmd.Process.Pid))
			if after := printed(); before == 0 || ours < before || ours > after {
				t.Errorf("%d classes unloaded, jcmd says %d before and %d after", ours, before, after)
			}
		})
	}
}

// unloaded returns the number of classes that went from a VM.
func unloaded(t *testing.T, pid uint32) uint64 {
	mappings, err := procfs.Default.Mappings(pid)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(mappings, func(m procfs.Mapping) bool { return filepath.Base(m.Path) == "libjvm.so" })
	if at < 0 {
		t.Fatal("no libjvm.so is mapped")
	}
	file, err := elffile.Open(mappings[at].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, bias := procfs.Default.Memory(pid), mappings[at].Start // starts at offset 0 of the file
	i, err := jvm.New().Detect(mappings[at].Path, file).FindFrames(
		language.Process{PID: pid, Bias: bias, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	counter, err := i.Unloads(memory, bias)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	if _, err := memory.ReadAt(b, int64(counter)); err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(b)
}
