package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// record runs headwater record in a folder of its own.
func record(t testing.TB, args ...string) (folder, stdout, stderr string, code int) {
	t.Helper()
	need.Root(t)
	cmd := exec.Command(lab.Binary(t), append([]string{"record"}, args...)...)
	cmd.Dir = t.TempDir()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run() // the exit code says how it went
	t.Logf("headwater record %s:\n%s", strings.Join(args, " "), err.String())
	return cmd.Dir, out.String(), err.String(), cmd.ProcessState.ExitCode()
}

func readProfile(t testing.TB, path ...string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	p, err := profile.ParseData(data)
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	return p
}

// requireChain demands that nearly all time is in stacks of the chain program that are whole.
func requireChain(t testing.TB, all []lab.Stack) {
	t.Helper()
	whole := int64(0)
	for _, s := range all {
		if last, err := lab.ChainDepth(s); err == nil && last == 59 {
			whole += s.Value
		}
	}
	if total := lab.Total(all); total == 0 || float64(whole) < 0.95*float64(total) {
		t.Errorf("%d of %d ms are in whole stacks:\n%s", whole/1e6, total/1e6, lab.Show(all, 5))
	}
}

// TestCommand: a command is recorded from its first instruction on, and its exit code is ours.
// Two runs of a short program have as many samples as the CPU time that it used.
func TestCommand(t *testing.T) {
	t.Parallel()
	program := chain(t, "hwrecord")
	folder, _, stderr, code := record(t, "-F", "499", "--", program, "-2") // seconds of CPU time
	require.Equal(t, 0, code)
	p := readProfile(t, folder, "headwater.pb.gz")
	requireChain(t, lab.Stacks(p))
	require.Equal(t, program, p.Mapping[0].File)
	require.Contains(t, stderr, "until the command has ended")
	// While the profiler still reads the program, copies of stacks wait for it; on a slow machine a few find no room.
	require.Regexp(t, `(?:100\.0|99\.\d) % of stacks are whole`, stderr)

	_, stdout, _, code := record(t, "-F", "999", "-o", "out.pb.gz", "--", "sh", "-c", "echo printed; exit 7")
	require.Equal(t, 7, code)
	require.Equal(t, "printed\n", stdout)
	_, _, _, code = record(t, "-o", "out.pb.gz", "--", "sh", "-c", "kill -KILL $$")
	require.Equal(t, 128+int(syscall.SIGKILL), code)
}

// TestCommandFromTheStart: the time of a program that ends soon is recorded nearly whole, with
// what the dynamic linker does first.
func TestCommandFromTheStart(t *testing.T) {
	t.Parallel()
	need.Tools(t, "python3")
	folder, _, _, code := record(t, "-F", "5000", "--", "python3", "-c", "pass")
	require.Equal(t, 0, code)
	p := readProfile(t, folder, "headwater.pb.gz")
	linker := int64(0)
	for _, s := range lab.Stacks(p) {
		for _, f := range s.Frames {
			if strings.Contains(f.File, "/ld-linux") {
				linker += s.Value
				break
			}
		}
		require.NotContains(t, s.Frames[0].Name, "headwater", "samples of before the exec")
	}
	require.Positive(t, linker, "no samples in the dynamic linker:\n%s", lab.Show(lab.Stacks(p), 10))
}

// TestProcess: a recording of a process has no other's samples, and ends with the process.
func TestProcess(t *testing.T) {
	t.Parallel()
	need.Root(t)
	lab.StartCopy(t) // another busy one
	program := startChain(t, "hwrecord")
	cmd := exec.Command(lab.Binary(t), "record", "-p", fmt.Sprint(program.PID()), "-d", "600", "--json", "-f", "pprof")
	cmd.Dir = t.TempDir()
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	h := lab.Start(t, cmd)
	awaitSamples(t, h, cpuOf(t, program), 1)
	program.Kill(t)
	require.Equal(t, 0, h.Wait(t, 2*time.Minute), h.Output)
	requireChain(t, lab.Stacks(readProfile(t, cmd.Dir, "headwater.pb.gz")))
	var summary struct {
		File, Ended, Unit string
		Samples, Whole    uint64
		Seconds           float64
		Functions         []struct {
			Name        string
			Self, Total int64
		}
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &summary))
	require.Equal(t, "headwater.pb.gz", summary.File)
	require.Equal(t, fmt.Sprintf("process %d has ended", program.PID()), summary.Ended)
	require.Greater(t, summary.Samples, uint64(20))
	require.GreaterOrEqual(t, float64(summary.Whole), 0.95*float64(summary.Samples))
	require.NotEmpty(t, summary.Functions)
}

// TestInterrupt: the first SIGINT ends the recording, and the file is written.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	need.Root(t)
	program := startChain(t, "hwrecord")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out.folded")
			h := lab.Start(t, exec.Command(lab.Binary(t), "record", "-p", fmt.Sprint(program.PID()), "-o", out))
			awaitSamples(t, h, cpuOf(t, program), 1)
			require.NoFileExists(t, out)
			h.Signal(t, s)
			require.Equal(t, 128+int(s), h.Wait(t, 2*time.Minute), h.Output)
			text, err := os.ReadFile(out)
			require.NoError(t, err)
			require.Contains(t, string(text), "hwrecord;")
			left, err := os.ReadDir(filepath.Dir(out))
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

// recordBusy runs headwater record in a folder of its own, and ends it as Ctrl-C does when it has samples of a busy
// process: when that has used a second of CPU time meanwhile.
func recordBusy(t *testing.T, busy *lab.Process, args ...string) (folder, stderr string) {
	t.Helper()
	return recordUntil(t, cpuOf(t, busy), 1, args...)
}

// cpuOf returns the clock of a process: the seconds of CPU time that it has used.
func cpuOf(t *testing.T, p *lab.Process) func() float64 {
	return func() float64 { return lab.CPUTime(t, fmt.Sprint(p.PID())).Seconds() }
}

// recordUntil runs headwater record in a folder of its own, and ends it as Ctrl-C does when a clock has moved on.
func recordUntil(t *testing.T, clock func() float64, by float64, args ...string) (folder, stderr string) {
	t.Helper()
	need.Root(t)
	cmd := exec.Command(lab.Binary(t), append([]string{"record"}, args...)...)
	cmd.Dir = t.TempDir()
	h := lab.Start(t, cmd)
	awaitSamples(t, h, clock, by)
	h.Signal(t, syscall.SIGINT)
	code := h.Wait(t, 2*time.Minute)
	t.Logf("headwater record %s:\n%s", strings.Join(args, " "), h.Output)
	require.Equal(t, 128+int(syscall.SIGINT), code)
	return cmd.Dir, h.Output.String()
}

// awaitSamples waits until a clock has moved on since headwater opened the last event to sample by.
func awaitSamples(t *testing.T, h *lab.Process, clock func() float64, by float64) {
	t.Helper()
	events, begun := 0, 0.0
	testkit.Eventually(t, "samples", func() bool {
		require.False(t, h.Ended(), h.Output)
		now := clock()
		if open := openEvents(h.PID()); open != events || open == 0 {
			events, begun = open, now
		}
		return now >= begun+by
	})
}

// openEvents returns how many events of the kernel a process has opened to sample by.
func openEvents(pid int) (count int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if to, _ := os.Readlink(file); strings.Contains(to, "[perf_event]") { // "", if it is closed meanwhile
			count++
		}
	}
	return count
}

// TestSecondInterrupt: a second signal, while names are read or the file is written, ends the command at once. It says
// so, and leaves nothing behind.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	need.Root(t)
	copying := lab.StartCopy(t)
	folder := t.TempDir()
	out := filepath.Join(folder, "out.pb.gz")
	h := lab.Start(t, exec.Command(lab.Binary(t), "record", "-a", "-F", "997", "-o", out))
	awaitSamples(t, h, cpuOf(t, copying), 1)
	h.Signal(t, syscall.SIGINT)
	h.Signal(t, syscall.SIGTERM)
	either := []int{128 + int(syscall.SIGINT), 128 + int(syscall.SIGTERM)} // two threads may each be handed one of them
	require.Contains(t, either, h.Wait(t, 2*time.Minute), h.Output)
	require.Contains(t, fmt.Sprint(h.Output), "ended by a second signal before")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestIdle: a process that uses no CPU has no samples, which is said.
func TestIdle(t *testing.T) {
	t.Parallel()
	need.Root(t)
	idle := lab.Start(t, exec.Command("sleep", "600"))
	awaitSleep(t, idle.PID())
	folder, _, stderr, code := record(t, "-p", fmt.Sprint(idle.PID()), "-d", "1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no samples")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// awaitSleep waits until a process runs sleep, and sleeps.
func awaitSleep(t *testing.T, pid int) {
	t.Helper()
	testkit.Eventually(t, "a process that sleeps", func() bool {
		return strings.Contains(lab.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid)), " (sleep) S ")
	})
}

// TestParts: -K and -U leave out the other part of stacks, and --inline=no inlined functions.
func TestParts(t *testing.T) {
	t.Parallel()
	need.Root(t)
	copying := lab.StartCopy(t)
	copying.WaitBusy(t)
	for flag, want := range map[string][2]bool{"-K": {true, false}, "-U": {false, true}, "-g": {true, true}} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			folder, stderr := recordBusy(t, copying, "-p", fmt.Sprint(copying.PID()), flag)
			require.Equal(t, flag == "-g", strings.Contains(stderr, "have no effect"))
			var kernel, user bool
			for _, m := range readProfile(t, folder, "headwater.pb.gz").Mapping {
				kernel = kernel || m.File == "[kernel.kallsyms]"
				user = user || strings.HasSuffix(m.File, "/dd")
			}
			require.Equal(t, want, [2]bool{kernel, user}, flag)
		})
	}
}
