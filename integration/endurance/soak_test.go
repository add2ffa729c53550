package endurance

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// soakTime is what HEADWATER_SOAK says (`make -C integration soak`: 10m), or usual.
func soakTime(t testing.TB, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("HEADWATER_SOAK")
	if text == "" {
		return usual
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("HEADWATER_SOAK: %v", err)
	}
	return length
}

// TestSoak lets the profiler run while processes start and end and its configuration is reloaded. The resources that it
// holds level off (in make test only the kernel's), and after it has stopped no object of it is left in the kernel.
func TestSoak(t *testing.T) {
	need.Root(t)
	usual := 45 * time.Second
	if !testkit.IsNightly() {
		t.Parallel()
		usual = 6 * time.Second
	}
	length := soakTime(t, usual)
	program := rig.ChainProgram(t, "hwsoak")
	received := rig.StartReceiver(t)
	h := rig.StartPrioritized(t, rig.HostConfig(received.URL, "soak", ""))
	testkit.Eventually(t, "a profile", func() bool { return len(received.Profiles("soak")) > 0 })
	stopChurn := churn(t, program)

	held := bpfObjects{programs: map[uint32]bool{}, maps: map[uint32]bool{}}
	var history []resources
	for begin := time.Now(); time.Since(begin) < length || len(history) < 12; {
		time.Sleep(length / 15)
		if h.Ended() {
			t.Fatalf("headwater has ended: %v", h.Err)
		}
		history = append(history, measure(t, h))
		held.add(t, h)
		t.Logf("%4.0f s: %v", time.Since(begin).Seconds(), history[len(history)-1])
		if len(history)%5 == 0 {
			if code, body := h.Reload(t); code != 200 {
				t.Errorf("/-/reload answers %d %q", code, body)
			}
		}
	}
	t.Logf("%d processes came and went", stopChurn())
	levelsOff(t, history, length)
	held.add(t, h)
	programs, maps := held.alive(t)
	if programs == 0 || maps == 0 {
		t.Errorf("%d programs and %d maps of BPF: this test does not see them", programs, maps)
	}

	h.Stop(t)
	testkit.Eventually(t, "the BPF programs and maps are gone", func() bool {
		programs, maps := held.alive(t)
		return programs == 0 && maps == 0
	})

	if err := syscall.Kill(-h.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process of headwater's group is left: %v", err)
	}
}

// fillTime is how long caches and tables take to fill.
const fillTime = 15 * time.Second

// levelsOff compares the last third of the time with the one before it. The first third fills
// caches and tables; where it is too short for that, only BPF objects are compared. The page
// keeps profiles of ten minutes, so that memory levels off in a long run only.
func levelsOff(t testing.TB, history []resources, length time.Duration) {
	t.Helper()
	slack := 20 << 10 // in 45 s it grew by 3 MiB on a quiet machine, and varies by 15 on a busy one
	if length >= 10*time.Minute {
		slack = 8 << 10
	}
	third := len(history) / 3
	middle, last := history[third:2*third], history[2*third:]
	for _, figure := range []struct {
		name  string
		of    func(resources) int
		allow func(int) int // the most that the last third may show
	}{
		{"BPF maps", func(r resources) int { return r.maps }, func(n int) int { return n + 2 }},
		{"BPF programs", func(r resources) int { return r.programs }, func(n int) int { return n }},
		{"goroutines", func(r resources) int { return r.goroutines }, func(n int) int { return n + 5 }},
		{"file descriptors", func(r resources) int { return r.files }, func(n int) int { return n + 10 }},
		{"open executables", func(r resources) int { return r.executables }, func(n int) int { return n + n/2 + 50 }},
		{"RSS in KiB", func(r resources) int { return r.rss }, func(n int) int { return n + slack }},
	} {
		if length/3 < fillTime && !strings.HasPrefix(figure.name, "BPF") {
			continue
		}
		before, after := median(middle, figure.of), median(last, figure.of)
		if after > figure.allow(before) {
			t.Errorf("%s grow: %d in the middle third of the time, %d in the last", figure.name, before, after)
		}
	}
}

func median(history []resources, of func(resources) int) int {
	var values []int
	for _, r := range history {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// churn starts processes, short ones and some that burn a second of CPU,
// until its result is called, which returns how many there were.
func churn(t testing.TB, program string) (stop func() int) {
	t.Helper()
	end, ended := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		defer func() { ended <- count }()
		for {
			select {
			case <-end:
				return
			case <-time.After(40 * time.Millisecond):
			}
			cmd := exec.Command("true")
			if count%25 == 0 {
				cmd = exec.Command(program, "1", "1000000")
			}
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Errorf("churn: %v", err)
				return
			}
			count++
		}
	}()
	return func() int {
		close(end)
		return <-ended
	}
}
