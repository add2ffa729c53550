package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// terminal is a terminal of tmux in which a shell runs a command, and then says how the terminal was left.
type terminal struct {
	socket, folder string
}

// openTerminal runs headwater with arguments in a terminal.
func openTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	return openShell(t, `"$@"`, args...)
}

// openShell runs a part of a script in a terminal, where "$@" is headwater with arguments.
func openShell(t *testing.T, part string, args ...string) *terminal {
	t.Helper()
	need.Root(t)
	need.Tools(t, "tmux", "stty")
	x := &terminal{folder: t.TempDir()}
	x.socket = filepath.Join(x.folder, "tmux")
	script := `echo earlier output; stty -g >before; ` + part + `; echo "exit code $?"; stty -g >after; exec sleep 600`
	shell := append([]string{"sh", "-c", script, "sh", rig.Binary(t)}, args...)
	session := []string{"-f", "/dev/null", "new-session", "-d", "-s", "top", "-x", "110", "-y", "30", "-c", x.folder}
	x.tmux(t, append(session, shell...)...)
	t.Cleanup(func() { x.tmux(t, "kill-server") })
	return x
}

func (x *terminal) tmux(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "tmux %q: %s", args, out)
	return string(out)
}

func (x *terminal) shows(t *testing.T) string { return x.tmux(t, "capture-pane", "-p", "-t", "top") }

// await waits until the terminal shows something.
func (x *terminal) await(t *testing.T, what string) {
	t.Helper()
	last := ""
	t.Cleanup(func() {
		if !strings.Contains(last, what) {
			t.Logf("%q is not shown:\n%s", what, last)
		}
	})
	testkit.Eventually(t, fmt.Sprintf("%q is shown", what), func() bool {
		last = x.shows(t)
		return strings.Contains(last, what)
	})
}

func (x *terminal) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		x.tmux(t, "send-keys", "-t", "top", key)
	}
}

// resize changes the size of the terminal, and waits until it is filled from the first line to the last.
func (x *terminal) resize(t *testing.T, columns, rows int) {
	t.Helper()
	x.tmux(t, "resize-window", "-t", "top", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows))
	testkit.Eventually(t, "a picture of the new size", func() bool {
		lines := strings.Split(strings.TrimSuffix(x.shows(t), "\n"), "\n")
		return len(lines) == rows && strings.HasPrefix(lines[0], "headwater top  ") &&
			strings.HasPrefix(lines[rows-1], "q quit  ")
	})
}

// requireRestored requires that the terminal has its settings and contents from before the program.
func (x *terminal) requireRestored(t *testing.T, code int) {
	t.Helper()
	x.await(t, fmt.Sprintf("exit code %d", code))
	require.True(t, strings.HasPrefix(x.shows(t), "earlier output\n"), x.shows(t))
	testkit.Eventually(t, "the state of the terminal", func() bool {
		text, err := os.ReadFile(filepath.Join(x.folder, "after"))
		return err == nil && len(text) > 0
	})

	before, err := os.ReadFile(filepath.Join(x.folder, "before"))
	require.NoError(t, err)
	after, err := os.ReadFile(filepath.Join(x.folder, "after"))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Equal(t, "0 0 1\n", x.tmux(t, "display-message", "-p", "-t", "top",
		"#{alternate_on} #{mouse_any_flag} #{cursor_flag}"))
}

// TestTop: the terminal shows the function that a program spends its time in, key by key, and the program's waits; a
// key writes the samples to a file; the terminal is restored.
func TestTop(t *testing.T) {
	t.Parallel()
	program := startChain(t, "hwview")
	x := openTerminal(t, "top", "--interval", "0.5", "-F", "499")
	x.await(t, "CPU%")
	x.press(t, "/", "h", "w", "v", "i", "e", "w", "Enter")
	row := regexp.MustCompile(fmt.Sprintf(`(?m) %d +hwview`, program.PID()))
	testkit.Eventually(t, "a row of the program", func() bool { return row.MatchString(x.shows(t)) })
	x.press(t, "Enter") // the only process of that name is opened
	x.await(t, fmt.Sprintf("in process %d hwview", program.PID()))
	x.await(t, "f59  hwview")
	used := func() time.Duration { return rig.CPUTime(t, fmt.Sprint(program.PID())) }
	begun := used()
	testkit.Eventually(t, "more samples", func() bool { return used() > begun+time.Second }) // the first are incomplete
	x.resize(t, 70, 80)
	x.press(t, "g")
	x.await(t, "▏f59")
	x.resize(t, 110, 30)
	x.press(t, "w")
	x.await(t, "WAITS FOR")
	x.await(t, fmt.Sprintf(" %d r", program.PID())) // it is running, or runnable
	x.press(t, "r")
	x.await(t, "wrote headwater-top-")
	require.Contains(t, x.shows(t), "of stacks whole")
	x.press(t, "q")
	x.requireRestored(t, 0)

	files, err := filepath.Glob(filepath.Join(x.folder, "headwater-top-*.pb.gz"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	var ours []rig.Stack
	for _, s := range rig.Stacks(readProfile(t, files[0])) {
		complete := len(s.Frames) > 1 && !strings.HasPrefix(s.Frames[1].Name, "[incomplete: ")
		named := complete && !strings.HasPrefix(s.Frames[1].Name, "hwview+0x") // the symbols were read by then
		if s.Frames[0].Name == "hwview" && named {
			ours = append(ours, s)
		}
	}
	requireChain(t, ours) // in TestProcess and TestCommand nearly all are also complete
}

// TestTopEnds: a signal and Ctrl-C leave the terminal as it was, and so does the end of the program that is looked at.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	busy := rig.StartCopy(t)
	x := openTerminal(t, "top", "-p", fmt.Sprint(busy.PID()), "--interval", "0.5", "--no-color")
	x.await(t, "CPU%")
	require.NotRegexp(t, `\x1b\[[0-9;]*[34][0-7]`, x.tmux(t, "capture-pane", "-p", "-e", "-t", "top"))
	busy.Kill(t)
	x.await(t, fmt.Sprintf("process %d has ended", busy.PID()))
	x.press(t, "C-c")
	x.requireRestored(t, 0)

	x = openTerminal(t, "top", "--interval", "0.5")
	x.await(t, "CPU%")
	x.signal(t, "TERM")
	x.requireRestored(t, 128+int(syscall.SIGTERM))
}

// TestTopSuspend: Ctrl-Z and SIGTSTP restore the terminal, and fg draws the screen again and continues.
func TestTopSuspend(t *testing.T) {
	t.Parallel()
	busy := rig.StartCopy(t)
	script := `set -m; "$@"; echo "suspended $?"; stty -g >one; read go; fg; echo "again $?"; stty -g >two; read go; fg`
	x := openShell(t, script, "top", "-p", fmt.Sprint(busy.PID()), "--interval", "0.5")
	suspended := func(says, state string) {
		t.Helper()
		x.await(t, fmt.Sprintf("%s %d", says, 128+int(syscall.SIGSTOP)))
		require.True(t, strings.HasPrefix(x.shows(t), "earlier output\n"), x.shows(t))
		testkit.Eventually(t, "the state of the terminal", func() bool {
			text, err := os.ReadFile(filepath.Join(x.folder, state))
			return err == nil && string(text) == rig.ReadFile(t, filepath.Join(x.folder, "before"))
		})

		x.press(t, "Enter")
		x.await(t, "CPU%")
	}
	x.await(t, "CPU%")
	x.press(t, "C-z")
	suspended("suspended", "one")
	x.press(t, "f") // keys are read again
	x.await(t, "FUNCTION")
	x.signal(t, "TSTP")
	suspended("again", "two")
	x.press(t, "q")
	x.requireRestored(t, 0)
}

// signal sends a signal to what the shell runs.
func (x *terminal) signal(t *testing.T, name string) {
	t.Helper()
	for _, pid := range strings.Fields(x.tmux(t, "list-panes", "-t", "top", "-F", "#{pane_pid}")) {
		out, err := exec.Command("pkill", "-"+name, "-P", pid).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// TestTopPlain: without a terminal, tables are printed, for people and for programs.
func TestTopPlain(t *testing.T) {
	t.Parallel()
	need.Root(t)
	program := startChain(t, "hwtop")
	top := func(args ...string) string {
		cmd := exec.Command(rig.Binary(t), append([]string{"top", "-p", fmt.Sprint(program.PID())}, args...)...)
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	text := top("--by", "function", "--interval", "1")
	require.Contains(t, text, fmt.Sprintf("headwater top  process %d (hwtop)  last ", program.PID()))
	require.Contains(t, text, "f59  hwtop\n")
	require.NotContains(t, text, "\x1b")
	require.Contains(t, top("--by", "flame", "--interval", "1"), "▏f59")

	lines := strings.Split(strings.TrimSpace(top("--by", "binary", "--interval", "1", "-n", "2", "--json")), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		var table struct {
			Samples uint64
			CPU     int64 `json:"cpu_ns"`
			Rows    []struct {
				Binary string
				Self   int64
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &table))
		require.Positive(t, table.Samples)
		sum := int64(0)
		for _, r := range table.Rows {
			sum += r.Self
		}
		require.Equal(t, table.CPU, sum)
	}
}

// TestTopCommand: a command is started and shown without other processes, and headwater ends with it, with its exit
// code.
func TestTopCommand(t *testing.T) {
	t.Parallel()
	program := chain(t, "hwtop")
	x := openTerminal(t, "top", "--interval", "0.3", "-F", "499", "--by", "function", "--rows", "3", "--",
		"sh", "-c", `"$0" 2 & wait; echo unseen; exit 7`, program)
	x.await(t, "f59  hwtop")
	x.requireRestored(t, 7)
	require.NotContains(t, x.shows(t), "unseen")
	require.Contains(t, x.shows(t), "f59  hwtop", "the table at the end")

	var stdout, stderr strings.Builder
	plain := func(args ...string) int {
		stdout.Reset()
		stderr.Reset()
		args = append([]string{"top", "-F", "499", "--interval", "60", "--once", "--"}, args...)
		cmd := exec.Command(rig.Binary(t), args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the exit code says how it ended
		return cmd.ProcessState.ExitCode()
	}
	require.Zero(t, plain("sh", "-c", "echo heard; "+program+" 4"))
	require.Contains(t, stdout.String(), "hwtop\n")
	require.Equal(t, "heard\n", stderr.String())
	require.Zero(t, plain("true"), "a command that uses hardly any CPU has ended well all the same")
	require.Equal(t, 128+int(syscall.SIGKILL), plain("sh", "-c", "kill -KILL $$"))
}

// TestTopCommandEnds: a command does not outlive the view.
func TestTopCommandEnds(t *testing.T) {
	t.Parallel()
	x := openTerminal(t, "top", "--interval", "0.5", "--", "sh", "-c", "echo $$ >pid; exec sleep 600")
	x.await(t, "CPU%")
	pid := strings.TrimSpace(rig.ReadFile(t, filepath.Join(x.folder, "pid")))
	x.press(t, "q")
	x.requireRestored(t, 0)
	require.NoDirExists(t, "/proc/"+pid)
}

// TestTopPlainWaits: the waits of a process's threads are also printed, and the states of the whole host's threads,
// where threads in the same state are one row, and idle kernel threads are left out.
func TestTopPlainWaits(t *testing.T) {
	t.Parallel()
	need.Root(t)
	idle := rig.Start(t, exec.Command("sleep", "600"))
	two := rig.Start(t, exec.Command("python3", "-c",
		"import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\ntime.sleep(600)"))
	testkit.Eventually(t, "two threads", func() bool {
		return threadsOf(two.PID()) == 2
	})

	awaitSleep(t, idle.PID())

	// On a busy host a table may be of before the first look at threads.
	untilWaits(t, func(one []waitRow) bool {
		if len(one) == 0 {
			return false
		}
		require.Len(t, one, 1)
		require.Equal(t, idle.PID(), one[0].TID)
		require.Equal(t, "sleeping", one[0].State)
		require.Equal(t, "sleep", one[0].Wait)
		require.Positive(t, one[0].OffSeconds)
		require.Equal(t, idle.PID(), one[0].PID)
		require.Equal(t, "sleep", one[0].Process)
		return true
	}, "-p", fmt.Sprint(idle.PID()))

	untilWaits(t, func(all []waitRow) bool {
		threads := map[int]int{}
		for _, w := range all {
			require.Positive(t, w.Threads)
			if w.State == "sleeping" && w.Wait == "sleep" {
				threads[w.PID] += w.Threads
			}
			if w.State == "sleeping" || w.State == "idle" {
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.PID)) // empty if it has ended
				require.NotContains(t, string(status), "\nPPid:\t2\n", "%+v is of the kernel", w)
			}
		}
		require.LessOrEqual(t, threads[idle.PID()], 1)
		require.LessOrEqual(t, threads[two.PID()], 2)
		return threads[idle.PID()] == 1 && threads[two.PID()] == 2
	}, "--rows", "0")
}

// waitRow is a row of headwater top --by waits.
type waitRow struct {
	PID, TID, Threads    int
	Process, State, Wait string
	OffSeconds           float64 `json:"off_cpu_seconds"`
}

// untilWaits runs headwater top, and checks the rows of each printed table until check returns true.
func untilWaits(t *testing.T, check func([]waitRow) bool, args ...string) {
	t.Helper()
	args = append([]string{"top", "--by", "waits", "--interval", "1", "-n", "600", "--json"}, args...)
	h := rig.Start(t, exec.Command(rig.Binary(t), args...))
	seen := 0
	testkit.Eventually(t, "a table of waits", func() bool {
		require.False(t, h.Ended(), h.Output)
		lines := h.Output.Lines(`"rows"`)
		for ; seen < len(lines); seen++ {
			var table struct{ Rows []waitRow }
			if json.Unmarshal([]byte(lines[seen]), &table) != nil {
				return false // the end of the line is not there yet
			}
			if check(table.Rows) {
				return true
			}
		}
		return false
	})
	h.Kill(t)
}

// threadsOf is how many threads a process has, 0 if it has ended.
func threadsOf(pid int) int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(all)
}

// TestTopWithoutPrivileges: headwater reports the missing privileges and what to do before it touches the terminal.
func TestTopWithoutPrivileges(t *testing.T) {
	t.Parallel()
	need.Root(t)
	binary := filepath.Join(t.TempDir(), "headwater")
	testkit.CopyProgram(t, rig.Binary(t), binary)
	for folder := filepath.Dir(binary); strings.HasPrefix(folder, os.TempDir()+"/"); folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o755))
	}
	cmd := exec.Command(binary, "top", "--once")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "profiling needs capabilities that this process lacks: CAP_BPF")
	require.Contains(t, string(out), "setcap ")
}
