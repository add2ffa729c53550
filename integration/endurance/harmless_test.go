package endurance

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// harmlessKinds are the kinds of samples that put something into programs, and all kinds at once. The %s are the
// program of testdata/harmless.cc and that of ebpf/probing/testdata/grows.go.
var harmlessKinds = map[string]string{
	"uprobes": `probe_links = ["uprobe:%[1]s:work", "uprobe:%[1]s:parse", "uprobe:%[1]s:jump", "uprobe:%[1]s:yields",
		"uprobe:%[2]s:main.target"]`,
	"uretprobes": `probe_links = ["uretprobe:%[1]s:work", "uretprobe:%[1]s:parse", "uretprobe:%[1]s:jump",
		"uretprobe:%[1]s:yields", "uretprobe:%[2]s:main.target"]`,
	"heap": `heap {
		sample_bytes   = "4KiB"
		overhead_limit = 0
	}`,
	"all": `heap {
		sample_bytes   = "4KiB"
		overhead_limit = 0
	}
	off_cpu { }
	page_faults { }
	probe_links = ["uprobe:%[1]s:work", "uretprobe:%[1]s:work", "uretprobe:%[1]s:parse", "uretprobe:%[1]s:jump",
		"uretprobe:%[1]s:yields", "uretprobe:%[2]s:main.target"]`,
}

// TestHarmless: programs print the same and end with the same exit code, whatever kinds of samples are taken of them.
func TestHarmless(t *testing.T) {
	need.Root(t)
	need.Tools(t, "g++", "go", "gdb", "python3", "node", "java")
	dir := t.TempDir()
	harmless, static, grows := filepath.Join(dir, "harmless"), filepath.Join(dir, "static"), filepath.Join(dir, "grows")
	lab.Compile(t, "g++", "-O2", "-o", harmless, "testdata/harmless.cc")
	lab.Compile(t, "g++", "-O2", "-static", "-o", static, "testdata/harmless.cc")
	lab.Compile(t, "go", "build", "-o", grows, "../../ebpf/probing/testdata/grows.go")
	var commands [][]string
	for _, what := range []string{"throws", "longjumps", "coroutines", "children", "signals", "strict"} {
		commands = append(commands, []string{harmless, what}, []string{static, what})
	}
	commands = append(commands,
		[]string{grows, "100"},
		[]string{"python3", "-c", "print(sum(len(str(n)) for n in range(3000)))"},
		[]string{"java", "-version"},
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
	for kind, config := range harmlessKinds {
		if kind != "all" && !testkit.IsNightly() {
			continue // all has the others
		}
		received := lab.StartReceiver(t)
		h := lab.StartHeadwater(t, lab.HostConfig(received.URL, "harmless", fmt.Sprintf(config, harmless, grows)))
		h.WaitReady(t)
		probed := func() float64 { return h.Metric(t, "pyroscope_ebpf_probes_attached") }
		heaps := func() float64 { return h.Metric(t, "pyroscope_ebpf_heap_files") }
		testkit.Eventually(t, "the probes of "+kind+" are attached", func() bool { return probed()+heaps() > 0 })
		before := h.Metric(t, "pyroscope_ebpf_probe_samples_total") + h.Metric(t, "pyroscope_ebpf_heap_samples_total")
		for i, command := range commands {
			for range runs {
				if got := ran(t, command); got != want[i] {
					t.Errorf("%s: %q:\n%s\nalone it says:\n%s", kind, command, got, want[i])
				}
			}
		}
		testkit.Eventually(t, "calls of the programs were sampled", func() bool {
			return h.Metric(t, "pyroscope_ebpf_probe_samples_total")+h.Metric(t, "pyroscope_ebpf_heap_samples_total") > before
		})
		h.Stop(t)
	}
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
