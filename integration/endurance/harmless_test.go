package endurance

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// harmlessKinds are the kinds of samples taken of programs, each together with CPU samples, and all kinds at once.
// %[1]s and %[2]s are the programs of testdata/harmless.cc and ebpf/source/probe/testdata/grows.go.
var harmlessKinds = map[string]string{
	"uprobes": `probe_links = ["uprobe:%[1]s:work", "uprobe:%[1]s:parse", "uprobe:%[1]s:jump", "uprobe:%[1]s:yields",
		"uprobe:%[2]s:main.target"]`,
	"uretprobes": `probe_links = ["uretprobe:%[1]s:work", "uretprobe:%[1]s:parse", "uretprobe:%[1]s:jump",
		"uretprobe:%[1]s:yields", "uretprobe:%[2]s:main.target"]`,
	"heap": `heap {
		sample_bytes   = "4KiB"
		overhead_limit = 0
	}`,
	"cpu":     "",
	"off-CPU": "off_cpu { }",
	"all": `heap {
		sample_bytes   = "4KiB"
		overhead_limit = 0
	}
	off_cpu { }
	page_faults { }
	probe_links = ["uprobe:%[1]s:work", "uretprobe:%[1]s:work", "uretprobe:%[1]s:parse", "uretprobe:%[1]s:jump",
		"uretprobe:%[1]s:yields", "uretprobe:%[2]s:main.target"]`,
}

// TestHarmless: programs have the same output and exit code, independent of the kinds of samples taken of them.
func TestHarmless(t *testing.T) {
	need.Root(t)
	need.Tools(t, "g++", "go", "gdb", "strace", "python3", "node", "java")
	dir := t.TempDir()
	harmless, static, grows := filepath.Join(dir, "harmless"), filepath.Join(dir, "static"), filepath.Join(dir, "grows")
	rig.Compile(t, "g++", "-O2", "-o", harmless, "testdata/harmless.cc")
	rig.Compile(t, "g++", "-O2", "-static", "-o", static, "testdata/harmless.cc")
	rig.Compile(t, "go", "build", "-o", grows, "../../ebpf/source/probe/testdata/grows.go")
	var commands [][]string
	for _, what := range []string{"throws", "longjumps", "coroutines", "children", "signals", "strict", "compiles"} {
		commands = append(commands, []string{harmless, what}, []string{static, what})
	}
	commands = append(commands,
		[]string{grows, "100"},
		[]string{"python3", "-c", "print(sum(len(str(n)) for n in range(3000)))"},
		[]string{"java", "-version"},
		// What the program prints, how it ends, and how often it has made each system call.
		[]string{"strace", "-f", "-c", "-U", "calls,name", "-S", "name", harmless, "throws"},
		[]string{"strace", "-f", "-c", "-U", "calls,name", "-S", "name", harmless, "compiles"},
	)
	if testkit.IsNightly() { // all probes of the heap make their start last for 20 s
		commands = append(commands,
			[]string{"gdb", "-batch", "-nx", "-ex", "run throws", "-ex", "print $_exitcode", harmless},
			[]string{"node", "-e", "let s = 0; for (let i = 0; i < 3000; i++) s += String(i).length; console.log(s)"},
		)
	}
	want := make([]string, len(commands))
	for i, command := range commands {
		want[i] = ran(t, command)
	}
	runs := 1
	if testkit.IsNightly() {
		runs = 3
	}
	places := strings.NewReplacer("%[1]s", harmless, "%[2]s", grows)
	for kind, config := range harmlessKinds {
		if kind != "all" && !testkit.IsNightly() {
			continue // all includes it
		}
		received := rig.StartReceiver(t)
		h := rig.StartHeadwater(t, rig.HostConfig(received.URL, "harmless", places.Replace(config)))
		h.WaitReady(t)
		sampled := func() (n float64) {
			for _, metric := range harmlessSamples(kind) {
				n += h.Metric(t, metric)
			}
			return n
		}
		if probes := kind != "cpu" && kind != "off-CPU"; probes {
			attached := func() float64 {
				return h.Metric(t, "pyroscope_ebpf_probes_attached") + h.Metric(t, "pyroscope_ebpf_heap_files")
			}
			testkit.Eventually(t, "the probes of "+kind+" are attached", func() bool { return attached() > 0 })
		}
		before := sampled()
		for i, command := range commands {
			for range runs {
				if got := ran(t, command); got != want[i] {
					t.Errorf("%s: %q:\n%s\nalone it says:\n%s", kind, command, got, want[i])
				}
			}
		}
		testkit.Eventually(t, "samples of "+kind+" were taken", func() bool { return sampled() > before })
		h.Stop(t)
	}
}

// harmlessSamples returns the metrics that count the samples of a kind.
func harmlessSamples(kind string) []string {
	switch kind {
	case "cpu":
		return []string{"pyroscope_ebpf_samples_delivered_total"}
	case "off-CPU":
		return []string{"pyroscope_ebpf_off_cpu_stacks_read_total"}
	}
	return []string{"pyroscope_ebpf_probe_samples_total", "pyroscope_ebpf_heap_samples_total"}
}

// withoutProcessNumbers leaves out the lines in which gdb numbers processes, which differ from run to run.
func withoutProcessNumbers(text []byte) []byte {
	lines := slices.Collect(bytes.Lines(text))
	return bytes.Join(slices.DeleteFunc(lines, func(line []byte) bool {
		return bytes.HasPrefix(line, []byte("[Inferior ")) || bytes.HasPrefix(line, []byte("warning: "))
	}), nil)
}

// ran returns what a command prints, and how it ends.
func ran(t *testing.T, command []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.WaitDelay = time.Minute
	cmd.Stdin = bytes.NewReader([]byte("\n"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%q: %v", command, err)
	}
	return fmt.Sprintf("%s%v", withoutProcessNumbers(out), cmd.ProcessState)
}
