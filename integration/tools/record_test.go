package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// record runs headwater record in a folder of its own.
func record(t testing.TB, args ...string) (folder, stdout, stderr string, code int) {
	t.Helper()
	need.Root(t)
	cmd := exec.Command(rig.Binary(t), append([]string{"record"}, args...)...)
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

// requireChain demands that nearly all time is in stacks of the chain program that are whole. Stacks of before the
// profiler has read the program do not count, as long as they are fewer: it reads the program later if other programs
// use the CPUs.
func requireChain(t testing.TB, all []rig.Stack) {
	t.Helper()
	var whole, early int64
	for _, s := range all {
		if last, err := rig.ChainDepth(s); err == nil && last == 59 {
			whole += s.Value
		} else if s.IsUnready() {
			early += s.Value
		}
	}
	if total := rig.Total(all); whole <= early || float64(whole) < 0.95*float64(total-early) {
		t.Errorf("%d of %d ms are in whole stacks, %d ms are from before the program was read:\n%s",
			whole/1e6, total/1e6, early/1e6, rig.Show(all, 5))
	}
}

// wholeSamples returns how many samples of a profile have whole stacks.
func wholeSamples(p *profile.Profile) (whole uint64) {
	for _, s := range p.Sample {
		incomplete := slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
			return len(l.Line) > 0 && strings.HasPrefix(l.Line[0].Function.Name, "[incomplete: ")
		})
		if !incomplete {
			whole += uint64(s.Value[0]) // samples/count
		}
	}
	return whole
}

// TestCommand: a command is recorded from its first instruction on, and its exit code is ours.
// Two runs of a short program have as many samples as the CPU time that it used.
func TestCommand(t *testing.T) {
	t.Parallel()
	program := chain(t, "hwrecord")
	folder, _, stderr, code := record(t, "-F", "499", "--", program, "-2") // seconds of CPU time
	require.Equal(t, 0, code)
	p := readProfile(t, folder, "headwater.pb.gz")
	requireChain(t, rig.Stacks(p))
	require.Equal(t, program, p.Mapping[0].File)
	require.Contains(t, stderr, "until the command has ended")
	// While the profiler still reads the program, copies of stacks wait for it; on a slow machine some find no room.
	require.Regexp(t, `(?:100\.0|9[5-9]\.\d) % of stacks are whole`, stderr)

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
	for _, s := range rig.Stacks(p) {
		for _, f := range s.Frames {
			if strings.Contains(f.File, "/ld-linux") {
				linker += s.Value
				break
			}
		}
		require.NotContains(t, s.Frames[0].Name, "headwater", "samples of before the exec")
	}
	require.Positive(t, linker, "no samples in the dynamic linker:\n%s", rig.Show(rig.Stacks(p), 10))
}

// TestProcess: a recording of a process has no other's samples, and ends with the process.
func TestProcess(t *testing.T) {
	t.Parallel()
	need.Root(t)
	rig.StartCopy(t) // another busy one
	program := startChain(t, "hwrecord")
	h := startRecorder(t, "-p", fmt.Sprint(program.PID()), "-d", "600", "--json", "-f", "pprof")
	h.awaitSamples(t, 50)
	program.Kill(t)
	h.end(t, 0)
	p := readProfile(t, h.folder, "headwater.pb.gz")
	requireChain(t, rig.Stacks(p))
	var summary struct {
		File, Ended, Unit string
		Samples, Whole    uint64
		Seconds           float64
		Functions         []struct {
			Name        string
			Self, Total int64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(h.Output.String()), &summary))
	require.Equal(t, "headwater.pb.gz", summary.File)
	require.Equal(t, fmt.Sprintf("process %d has ended", program.PID()), summary.Ended)
	require.Greater(t, summary.Samples, uint64(20))
	require.Equal(t, wholeSamples(p), summary.Whole)
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
			h := startRecorder(t, "-p", fmt.Sprint(program.PID()), "-o", "out.folded")
			h.awaitSamples(t, 20)
			require.NoFileExists(t, filepath.Join(h.folder, "out.folded"))
			h.Signal(t, s)
			h.end(t, 128+int(s))
			require.Contains(t, rig.ReadFile(t, filepath.Join(h.folder, "out.folded")), "hwrecord;")
			left, err := os.ReadDir(h.folder)
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

// recorder is a headwater record that runs, for which its stderr is a terminal: there it shows how many samples it has.
type recorder struct {
	*rig.Process
	folder string     // in which it runs
	shown  rig.Output // on the terminal
	ended  chan struct{}
}

// startRecorder runs headwater record in a folder of its own.
func startRecorder(t *testing.T, args ...string) *recorder {
	t.Helper()
	need.Root(t)
	ours, theirs := openTerminalPair(t)
	cmd := exec.Command(rig.Binary(t), append([]string{"record"}, args...)...)
	r := &recorder{folder: t.TempDir(), ended: make(chan struct{})}
	cmd.Dir, cmd.Stderr = r.folder, theirs
	r.Process = rig.Start(t, cmd)
	require.NoError(t, theirs.Close())
	go func() {
		defer close(r.ended)
		_, _ = io.Copy(&r.shown, ours) // it ends with an error, because the program on the other side has ended
	}()
	t.Cleanup(func() {
		t.Logf("headwater record %s:\n%s", strings.Join(args, " "), r.shown.Tail(20))
	})
	return r
}

// openTerminalPair returns both sides of a terminal: programs run on the second.
func openTerminalPair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return ours, theirs
}

// samplesShown is how headwater shows how many samples it has.
var samplesShown = regexp.MustCompile(`\r\d+ s  ([\d,]+) samples?  `)

// awaitSamples waits until the recording has that many samples.
func (r *recorder) awaitSamples(t *testing.T, count int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d samples", count), func() bool {
		require.False(t, r.Ended(), "%s", &r.shown)
		all := samplesShown.FindAllStringSubmatch(r.shown.String(), -1)
		if len(all) == 0 {
			return false
		}
		n, err := strconv.Atoi(strings.ReplaceAll(all[len(all)-1][1], ",", ""))
		require.NoError(t, err)
		return n >= count
	})
}

// end waits until the recording has ended with an exit code, and returns its output.
func (r *recorder) end(t *testing.T, code int) string {
	t.Helper()
	require.Equal(t, code, r.Wait(t, 2*time.Minute), "%s", &r.shown)
	<-r.ended
	return r.shown.String()
}

// recordSamples runs headwater record in a folder of its own, and ends it with SIGINT when it has that many samples.
func recordSamples(t *testing.T, count int, args ...string) (folder, stderr string) {
	t.Helper()
	r := startRecorder(t, args...)
	r.awaitSamples(t, count)
	r.Signal(t, syscall.SIGINT)
	return r.folder, r.end(t, 128+int(syscall.SIGINT))
}

// awaitSleep waits until a process runs sleep, and sleeps.
func awaitSleep(t *testing.T, pid int) {
	t.Helper()
	testkit.Eventually(t, "a process that sleeps", func() bool {
		return strings.Contains(rig.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid)), " (sleep) S ")
	})
}

// TestParts: -K and -U leave out the other part of stacks, and --inline=no inlined functions.
func TestParts(t *testing.T) {
	t.Parallel()
	need.Root(t)
	copying := rig.StartCopy(t)
	copying.WaitBusy(t)
	for flag, want := range map[string][2]bool{"-K": {true, false}, "-U": {false, true}, "-g": {true, true}} {
		t.Run(flag, func(t *testing.T) {
			folder, stderr := recordSamples(t, 50, "-p", fmt.Sprint(copying.PID()), flag)
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
