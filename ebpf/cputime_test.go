package ebpf

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestCPUTime compares the CPU time of programs by samples with the kernel's own, in schedstat: interpreters, and an
// emulator. A sample stands for a whole period, for the program that runs at its end. So the number of samples of a
// program that has a share p of a CPU is random, with a standard deviation of sqrt(n(1-p)) if n are expected. The test
// allows four standard deviations, and 2 % for the time in which the profiler completes stacks.
//
// In a guest the two clocks may differ: perf record -a -e cpu-clock also had 3 to 10 % more samples than schedstat has
// time, on two busy CPUs. So all programs together may differ by 10 %, and each program is compared with all of them.
func TestCPUTime(t *testing.T) {
	testkit.Nightly(t, "it takes a minute of CPU time")
	need.Root(t)
	need.Tools(t, "valgrind", "python3", "perl", "lua5.4")
	commands := [][]string{
		{"valgrind", "-q", "--tool=none", "perl", "-e", "while (1) { $s = $s * 31 + 7 & 65535 }"},
		{"python3", "-c", "s = 0\nwhile True: s = s * 31 + 7 & 65535"},
		{"perl", "-e", "while (1) { $s = $s * 31 + 7 & 65535 }"},
		{"lua5.4", "-e", "s = 0 while true do s = s * 31 + 7 & 65535 end"},
	}
	var pids []uint32
	for _, c := range commands {
		pids = append(pids, testkit.Run(t, exec.Command(c[0], c[1:]...)))
	}
	o := only(Options{}.withDefaults(), pids...)
	o.Labels = []string{"pid"}
	s := start(t, o)
	defer s.Close()
	settle(t, s, pids...)
	// While the programs are stopped, samples that were taken before are collected, so that none counts on the wrong
	// side.
	signal := func(number syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(int(pid), number); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := func() (rest []Profile) {
		signal(syscall.SIGSTOP)
		for quiet := 0; quiet < 3; quiet++ {
			time.Sleep(200 * time.Millisecond)
			more, err := s.Collect()
			if err != nil {
				t.Fatal(err)
			}
			if rest = append(rest, more...); len(more) > 0 {
				quiet = 0
			}
		}
		return rest
	}
	stop()
	var before []time.Duration
	for _, pid := range pids {
		before = append(before, scheduledTime(t, pid))
	}
	begin := time.Now()
	signal(syscall.SIGCONT)
	profiles := collectOf(t, s, 1500, pids...)
	wall := time.Since(begin)
	profiles = append(profiles, stop()...)
	var ran []time.Duration
	var samples []float64
	var allRan, allSamples float64
	for i, pid := range pids {
		n, _ := of(profiles, pid)
		ran, samples = append(ran, scheduledTime(t, pid)-before[i]), append(samples, float64(n))
		allRan, allSamples = allRan+ran[i].Seconds(), allSamples+samples[i]
	}
	rate := allSamples / allRan
	clocks := rate / float64(o.SampleRate)
	t.Logf("all programs: %+.2f %%", 100*(clocks-1))
	if math.Abs(clocks-1) > 0.1 {
		t.Errorf("%.0f samples of %.1f s", allSamples, allRan)
	}
	for i := range pids {
		n, ran := samples[i], ran[i]
		expected := ran.Seconds() * rate
		share := min(ran.Seconds()/wall.Seconds(), 1)
		allowed := 0.02*expected + 4*math.Sqrt(expected*(1-share))
		t.Logf("%s: %.0f samples, %.1f expected of %v, %+.2f %%, at %.0f %% of a CPU",
			commands[i][0], n, expected, ran, 100*(n/expected-1), 100*share)
		if math.Abs(n-expected) > allowed {
			t.Errorf("%s: %.0f samples, want %.1f within %.1f", commands[i][0], n, expected, allowed)
		}
	}
}

// scheduledTime returns the time that all threads of a process have run, by the kernel's scheduler.
func scheduledTime(t testing.TB, pid uint32) (total time.Duration) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var ran time.Duration
		if _, err := fmt.Sscan(string(text), (*int64)(&ran)); err != nil {
			t.Fatalf("%s: %q: %v", f, text, err)
		}
		total += ran
	}
	return total
}
