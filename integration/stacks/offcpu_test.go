package stacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// recordOffCPU returns the profile of the time off CPU of a process, and of how many looks at threads it is made.
func recordOffCPU(t testing.TB, pid int, flags ...string) (*profile.Profile, int) {
	t.Helper()
	need.Root(t)
	path := filepath.Join(t.TempDir(), "off.pb.gz")
	args := append([]string{"record", "-e", "off-cpu", "-p", strconv.Itoa(pid), "-o", path}, flags...)
	out := ""
	testkit.Eventually(t, "threads were looked at", func() bool {
		var err error
		out, err = urgent(t, exec.Command(rig.Binary(t), args...))
		late := err != nil && strings.Contains(out, "no samples: ") // it got no CPU in that time
		require.True(t, late || err == nil, out)
		return !late
	})
	t.Log(out)
	number, _, _ := strings.Cut(out, " samples in ")
	samples, err := strconv.Atoi(strings.ReplaceAll(number, ",", ""))
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	p, err := profile.ParseData(data)
	require.NoError(t, err)
	return p, samples
}

// userPart returns "module+address" of the frames of a sample that are in files, and "file:line" of the frames with a
// line, leaf first.
func userPart(s *profile.Sample) (addresses, lines []string) {
	for _, l := range s.Location {
		if l.Mapping == nil || !strings.HasPrefix(l.Mapping.File, "/") {
			continue
		}
		addresses = append(addresses, fmt.Sprintf("%s+0x%x", filepath.Base(l.Mapping.File), l.Address))
		for _, line := range l.Line {
			if line.Line > 0 {
				lines = append(lines, filepath.Base(line.Function.Filename)+":"+strconv.FormatInt(line.Line, 10))
			}
		}
	}
	return addresses, lines
}

// TestOffCPUOfServer compares the stacks of fifty blocked threads in a profile of time off CPU with eu-stack by
// address, and with gdb by line. All of each thread's time is there.
func TestOffCPUOfServer(t *testing.T) {
	t.Parallel()
	need.Tools(t, "eu-stack", "gdb", "g++")
	server := startServer(t)
	p, _ := recordOffCPU(t, server.PID(), "-d", "2", "--threads")
	native := nativeThreads(t, "-p", fmt.Sprint(server.PID()))
	debugger := gdbStacks(t, server.PID())
	waits, seen, frames := map[string]int{}, map[int]float64{}, 0
	for _, s := range p.Sample {
		require.Len(t, s.Label["thread_id"], 1, "%v", s.Label)
		tid, err := strconv.Atoi(s.Label["thread_id"][0])
		require.NoError(t, err)
		seen[tid] += float64(s.Value[len(s.Value)-1]) / 1e9
		waits[strings.Join(s.Label["wait"], " ")]++
		addresses, lines := userPart(s)
		frames += len(addresses)
		if want := namesOf(native[tid]); !slices.Equal(addresses, want) {
			t.Errorf("thread %d: frames\n%v, eu-stack has\n%v", tid, addresses, want)
		}
		if !subsequence(lines, debugger[tid]) {
			t.Errorf("thread %d: lines\n%v, gdb has\n%v", tid, lines, debugger[tid])
		}
	}
	require.Len(t, seen, 51)
	for tid, seconds := range seen {
		require.InDelta(t, seen[server.PID()], seconds, 1e-3, "thread %d", tid)
	}
	require.Equal(t, map[string]int{"lock": 14, "sleep": 13, "poll": 12, "socket": 12}, waits)
	t.Logf("%d stacks, %d frames", len(p.Sample), frames)
}

// TestOffCPUOfRestlessThreads: for threads that run two hundred times a second, no stack in profiles of off-CPU time
// mixes two moments. A stack that has changed before it was read is marked.
func TestOffCPUOfRestlessThreads(t *testing.T) {
	t.Parallel()
	wanted, seconds := 1500, "2"
	if testkit.IsNightly() {
		wanted, seconds = 10000, "4"
	}
	program := filepath.Join(t.TempDir(), "restless")
	const source = "../../ebpf/source/snapshot/testdata/restless.c"
	compiled(t, program, []string{source}, "gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
		"-fno-ipa-icf", "-pthread", "-o", output, source)
	process := rig.Start(t, exec.Command(program, "200", "5000"))
	stacks, whole, moved := 0, int64(0), int64(0)
	for try := 0; stacks < wanted; try++ {
		require.Less(t, try, 30, "%d stacks", stacks)
		p, samples := recordOffCPU(t, process.PID(), "-d", seconds)
		stacks += samples
		for _, s := range p.Sample {
			switch sides := restlessSides(s); {
			case len(slices.Compact(slices.Clone(sides))) > 1, len(sides) > 8:
				t.Fatalf("a stack is of two ways: %v", sides)
			case hasFrame(s, "[incomplete: moved]"):
				moved += s.Value[len(s.Value)-1]
			case hasFrame(s, "rest") && len(sides) != 8:
				t.Fatalf("a stack is of half a way: %v", sides)
			case len(sides) == 8:
				whole += s.Value[len(s.Value)-1]
			}
		}
	}
	t.Logf("%d stacks, %.1f s in whole ways, %.1f s of threads that moved before they were read", stacks,
		float64(whole)/1e9, float64(moved)/1e9)
	// With a load of 35 on two CPUs a fifth has, as threads that wait for longer than stacks are copied may have.
	require.Less(t, moved, whole, "most stacks are missing, though they are copied when threads leave a CPU")
}

// restlessSides returns on which way of testdata/restless.c each frame of a sample is.
func restlessSides(s *profile.Sample) (sides []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if side, _, ok := strings.Cut(line.Function.Name, "_"); ok && (side == "left" || side == "right") {
				sides = append(sides, side)
			}
		}
	}
	return sides
}

func hasFrame(s *profile.Sample, name string) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(line profile.Line) bool { return line.Function.Name == name })
	})
}
