package stacks

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// pausing is testdata/programs/pause.c while it runs.
type pausing struct {
	pid   int
	ask   io.Writer
	reply *bufio.Reader
}

// startPausing compiles and starts the program.
func startPausing(t testing.TB) *pausing {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pause")
	const source = "testdata/programs/pause.c"
	compiled(t, program, []string{source}, "gcc", "-O1", "-fomit-frame-pointer", "-pthread", "-o", output, source)
	cmd := exec.Command(program)
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pausing{rig.Start(t, cmd).PID(), ask, bufio.NewReader(reply)}
	testkit.Eventually(t, "all threads wait", func() bool {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.pid))
		named := func(file string) bool { return strings.HasPrefix(rig.ReadFile(t, file), "Name:\tanswers\n") }
		return err == nil && len(files) == 50 && slices.ContainsFunc(files, named)
	})

	return p
}

// longest returns the longest time between two looks at the clock since the last call.
func (p *pausing) longest(t testing.TB) time.Duration {
	t.Helper()
	if _, err := io.WriteString(p.ask, "\n"); err != nil {
		t.Fatal(err)
	}
	line, err := p.reply.ReadString('\n')
	if err != nil {
		t.Fatalf("the program has ended: %v", err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}

// pauses are what one tool did to the program, a value a round, in milliseconds.
type pauses struct {
	Longest []float64 `json:"longest_ms"` // between two looks at the clock
	Took    []float64 `json:"took_ms"`    // the tool, from its start to its end
	Woken   []float64 `json:"woken"`      // how many of the 48 threads that wait were put on a CPU
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// elsewhere is headwater at work on another process: its effect on this process.
const elsewhere = "headwater, of another process"

// pauseTools are the commands to compare, and two that do not touch the process.
func pauseTools(t testing.TB, pid string) map[string][]string {
	return map[string][]string{
		"nothing":   {"sleep", "0.5"},
		"headwater": {rig.Binary(t), "stack", pid},
		elsewhere:   {rig.Binary(t), "stack", strconv.Itoa(os.Getpid())},
		"eu-stack":  {"eu-stack", "-p", pid},
		"gdb":       {"gdb", "-batch", "-nx", "-p", pid, "-ex", "thread apply all bt"},
	}
}

// waiting returns, for each thread that waits indefinitely, the lines with its numbers of context switches.
func (p *pausing) waiting(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		if text := rig.ReadFile(t, file); strings.HasPrefix(text, "Name:\tpause\n") {
			found[file] = text[strings.Index(text, "voluntary_ctxt_switches:"):]
		}
	}
	if len(found) != 48 {
		t.Fatalf("%d threads wait, want 48", len(found))
	}
	return found
}

// TestPause: while headwater prints the stacks of fifty threads, none that waits is put on a CPU, which debuggers do to
// each, and the one that looks at the clock misses less time than with gdb. eu-stack stops threads one after the other,
// each for less than a millisecond. HEADWATER_PAUSES is how often each prints them.
func TestPause(t *testing.T) {
	need.Root(t)
	need.Tools(t, "eu-stack", "gdb", "gcc")
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("HEADWATER_PAUSES")); err == nil {
		rounds = n
	}
	save := record.Test(t, "pause", fmt.Sprintf("make -C integration bench-pause ROUNDS=%d RECORD=1", rounds))
	program := startPausing(t)
	found := measurePauses(t, program, rounds)
	// What else runs can only lengthen a pause: the shortest one is the tool's own.
	shorter := func() bool { return slices.Min(found["headwater"].Longest) < slices.Min(found["gdb"].Longest) }
	for more := 0; more < 5 && !shorter(); more++ {
		found["headwater"].measure(t, program, "headwater", pauseTools(t, strconv.Itoa(program.pid))["headwater"])
	}
	if !shorter() {
		t.Errorf("headwater: %.2f ms, gdb: %.2f ms", found["headwater"].Longest, found["gdb"].Longest)
	}
	if woken := slices.Max(found["headwater"].Woken); woken > 0 {
		t.Errorf("headwater woke %.0f threads", woken)
	}
	for _, tool := range []string{"eu-stack", "gdb"} {
		if woken := slices.Min(found[tool].Woken); woken < 48 {
			t.Errorf("%s woke %.0f threads of 48: the count is wrong", tool, woken)
		}
	}
	save(found)
}

// measurePauses runs each tool as often as there are rounds.
func measurePauses(t testing.TB, program *pausing, rounds int) map[string]*pauses {
	t.Helper()
	found := map[string]*pauses{}
	for range rounds {
		for tool, words := range pauseTools(t, strconv.Itoa(program.pid)) {
			if found[tool] == nil {
				found[tool] = &pauses{}
			}
			found[tool].measure(t, program, tool, words)
		}
	}
	return found
}

// measure runs one tool once.
func (p *pauses) measure(t testing.TB, program *pausing, tool string, words []string) {
	t.Helper()
	before := program.waiting(t)
	program.longest(t)
	began := time.Now()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	took := time.Since(began)
	longest := program.longest(t)
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
	if n := strings.Count(string(out), "wait_below"); tool != "nothing" && tool != elsewhere && n < 48 {
		t.Fatalf("%v printed %d of the frames wait_below of 48 threads:\n%.2000s", words, n, out)
	}
	woken := 0.0
	for thread, switches := range program.waiting(t) {
		if before[thread] != switches {
			woken++
		}
	}
	t.Logf("%-30s %8.2f ms longest, took %6.0f ms, woke %.0f", tool, milliseconds(longest), milliseconds(took), woken)
	p.Longest = append(p.Longest, milliseconds(longest))
	p.Took = append(p.Took, milliseconds(took))
	p.Woken = append(p.Woken, woken)
}
