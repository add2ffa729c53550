package ebpf

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// start starts a session, or skips where this process may not.
func start(t testing.TB, o Options) *Session {
	t.Helper()
	need.Root(t)
	s, err := Start(o)
	var denied *kernel.PermissionError
	if errors.As(err, &denied) {
		need.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// of returns the samples of a process in some profiles, and the complete ones.
func of(profiles []Profile, pid uint32) (samples, complete uint64) {
	for _, p := range profiles {
		for _, process := range p.Processes {
			if process.PID == pid {
				samples += process.Samples
				complete += process.Complete
			}
		}
	}
	return samples, complete
}

// collect waits until a process has samples.
func collect(t testing.TB, s *Session, pid uint32, want uint64) []Profile {
	t.Helper()
	var all []Profile
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		profiles, err := s.Collect()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, profiles...)
		if n, _ := of(all, pid); n >= want {
			return all
		}
	}
	n, _ := of(all, pid)
	t.Fatalf("%d samples of process %d in 2 minutes, want %d", n, pid, want)
	return nil
}

func TestSession(t *testing.T) {
	pid := testkit.Spin(t)
	procfs.StartHelper() // it lives as long as this process, on hosts with a FUSE file system
	before := runtime.NumGoroutine()
	s := start(t, Options{})
	var profiles []Profile
	testkit.Eventually(t, "nine of ten stacks of a shell are complete, when its rows are ready", func() bool {
		more := collect(t, s, pid, 20)
		profiles = append(profiles, more...)
		samples, complete := of(more, pid)
		return complete >= samples-samples/10
	})
	checkProfiles(t, profiles)
	stats := s.Stats()
	counted := stats.Delivered > 0 && stats.Delivered <= stats.Expected*2
	if !counted || stats.Processes == 0 || stats.Executables == 0 || stats.Pages == 0 {
		t.Errorf("stats %+v do not show what happened", stats)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, fmt.Sprintf("there are %d goroutines, as before", before), func() bool {
		return runtime.NumGoroutine() <= before
	})
}

// checkProfiles checks the requirements of Pyroscope and pprof on a profile.
func checkProfiles(t testing.TB, profiles []Profile) {
	t.Helper()
	times := map[int64]bool{}
	for _, p := range profiles {
		if err := p.Pprof.CheckValid(); err != nil {
			t.Error(err)
		}
		if times[p.Pprof.TimeNanos] {
			t.Errorf("two profiles have time %d", p.Pprof.TimeNanos)
		}
		times[p.Pprof.TimeNanos] = true
		if p.Pprof.Period != int64(time.Second)/97 || p.Pprof.DurationNanos <= 0 {
			t.Errorf("period %d, duration %d", p.Pprof.Period, p.Pprof.DurationNanos)
		}
		for _, l := range p.Pprof.Location {
			checkLocation(t, l)
		}
	}
}

func checkLocation(t testing.TB, l *profile.Location) {
	t.Helper()
	if len(l.Line) == 0 || l.Line[0].Function == nil || l.Line[0].Function.Name == "" {
		t.Errorf("location 0x%x has no function", l.Address)
	}
	m := l.Mapping
	if m != nil && m.Limit != 0 && (l.Address < m.Start || l.Address >= m.Limit) {
		t.Errorf("location 0x%x is outside its mapping of %s, 0x%x to 0x%x", l.Address, m.File, m.Start, m.Limit)
	}
}

// TestUpdate changes the options while samples are taken.
func TestUpdate(t *testing.T) {
	t.Parallel()
	need.Root(t)
	pid := testkit.Spin(t)
	s := start(t, Options{})
	defer s.Close()
	collect(t, s, pid, 1)
	before := cpuTime(t, pid)
	testkit.Eventually(t, "the shell runs before the update", func() bool { return cpuTime(t, pid)-before > enoughCPU })

	o := Options{}
	o.SampleRate, o.NoKernelStacks, o.Comm = 500, true, CommNone
	if err := s.Update(o); err != nil {
		t.Fatal(err)
	}
	periods := map[int64]uint64{}
	profiles := collectUntil(t, s, "the shell has samples at the new rate", func(more []Profile) bool {
		for _, p := range more {
			n, _ := of([]Profile{p}, pid)
			periods[p.Pprof.Period] += n
		}
		return periods[int64(time.Second)/500] >= 20
	})
	if periods[int64(time.Second)/97] == 0 || periods[int64(time.Second)/500] == 0 {
		t.Errorf("samples by period %v, want some of before and some of after the update", periods)
	}
	for _, p := range profiles {
		if p.Pprof.Period != int64(time.Second)/500 {
			continue
		}
		for _, f := range p.Pprof.Function {
			if f.Name == "sh" {
				t.Error("the process's name is a frame, with comm none")
			}
		}
		for _, m := range p.Pprof.Mapping {
			if strings.Contains(m.File, "kernel.kallsyms") {
				t.Error("there are kernel frames, without kernel stacks")
			}
		}
	}
	bad := o
	bad.SampleRate = -1
	if err := s.Update(bad); err == nil {
		t.Error("a sample rate of -1 was accepted")
	}
}

// TestTargetsOnly profiles one process of two.
func TestTargetsOnly(t *testing.T) {
	t.Parallel()
	need.Root(t)
	wanted, other := testkit.Spin(t), testkit.Spin(t)
	o := Options{}
	o.TargetsOnly = true
	o.Targets = []map[string]string{{"__process_pid__": itoa(wanted), "service_name": "wanted"}}
	s := start(t, o)
	defer s.Close()
	profiles := collect(t, s, wanted, 20)
	if n, _ := of(profiles, other); n != 0 {
		t.Errorf("%d samples of a process that is no target", n)
	}
	for _, p := range profiles {
		if p.Labels["service_name"] != "wanted" {
			t.Errorf("profile of %v", p.Labels)
		}
	}
	if s.Stats().Ignored == 0 {
		t.Error("no sample was ignored in the kernel, though another process was busy")
	}
}

// TestTargetsOnlyNewProcesses: where targets are processes, no stack is walked or copied of programs that end before it
// is known that they are no targets; the target's stacks exist.
func TestTargetsOnlyNewProcesses(t *testing.T) {
	t.Parallel()
	need.Root(t)
	wanted := testkit.Spin(t)
	loop := exec.Command("sh", "-c", "while :; do /bin/true; done")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		loop.Process.Kill()
		loop.Wait()
	})
	o := Options{}
	o.TargetsOnly = true
	o.Targets = []map[string]string{{"__process_pid__": itoa(wanted), "service_name": "wanted"}}
	s := start(t, o)
	defer s.Close()
	before := s.Stats()
	var n uint64
	collectUntil(t, s, "the target has samples, and others are left out", func(more []Profile) bool {
		samples, _ := of(more, wanted)
		n += samples
		return n >= 20 && s.Stats().Ignored-before.Ignored >= 200
	})
	after := s.Stats()
	left, copied := after.Ignored-before.Ignored, after.StackCopies-before.StackCopies
	t.Logf("%d samples of the target, %d left out, %d stacks copied", n, left, copied)
	if left < 50 || copied > left/10 {
		t.Errorf("%d samples were left out, of %d stacks were copied: they were walked first", left, copied)
	}
}

// enoughCPU is far longer than the time between two samples.
const enoughCPU = 300 * time.Millisecond

func itoa(pid uint32) string { return strconv.FormatUint(uint64(pid), 10) }
