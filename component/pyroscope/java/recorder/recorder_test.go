package recorder

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/component/pyroscope/java/attach"
	"github.com/headwater/headwater/component/pyroscope/java/jfr"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/javawork"
)

// worker is a VM whose program knows the figures.
type worker struct {
	*javawork.VM
	t *testing.T
}

func startWorker(t *testing.T, java string, user uint32, options ...string) *worker {
	t.Helper()
	return &worker{javawork.Start(t, java, user, options...), t}
}

// do executes a request.
func (w *worker) do(q Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q.PID, q.Dir, q.Duration, q.Alloc, q.Locks = w.PID, "/tmp", time.Hour, true, true
	return Do(ctx, q)
}

// must executes a request that succeeds.
func (w *worker) must(q Request) Answer {
	w.t.Helper()
	a, err := w.do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// total returns a value of the stacks below a function, by name of the profile and end of the name of the value.
func total(t *testing.T, a Answer, name, value, function string) (sum int64) {
	t.Helper()
	for _, e := range a.Profiles {
		p, err := profile.Parse(bytes.NewReader(e.Raw))
		if err != nil {
			t.Fatal(err)
		}
		for i, kind := range p.SampleType {
			if e.Name != name || !strings.HasSuffix(kind.Type, value) {
				continue
			}
			for _, s := range p.Sample {
				for _, l := range s.Location {
					if l.Line[0].Function.Name == function {
						sum += s.Value[i]
						break
					}
				}
			}
		}
	}
	return sum
}

// near demands that a figure is right within some percent.
func near(t *testing.T, what string, got, want int64, percent float64) {
	t.Helper()
	difference := 100 * (float64(got)/float64(want) - 1)
	t.Logf("%s: %d, the program says %d: %+.2f %%", what, got, want, difference)
	if difference < -percent || difference > percent {
		t.Errorf("%s: %d, the program says %d: %+.2f %%", what, got, want, difference)
	}
}

// waited demands that a time of waiting is between the time that the lock was held and the time by the program's clock.
func waited(t *testing.T, what string, got int64, held time.Duration, clock int64) {
	t.Helper()
	t.Logf("%s: %d ns, held for %s, the program says %d", what, got, held, clock)
	if got < int64(held)*99/100 || got > clock*101/100 {
		t.Errorf("%s: %d ns, held for %s, the program says %d", what, got, held, clock)
	}
}

// TestFigures compares recordings, one after the other, with what the program knows.
func TestFigures(t *testing.T) {
	t.Parallel()
	for _, java := range testkit.Javas() {
		t.Run(java, func(t *testing.T) { checkFigures(t, startWorker(t, java, 0)) })
	}
}

func checkFigures(t *testing.T, w *worker) {
	t.Helper()
	w.must(Request{Start: "a"})
	var after uint64
	names := []string{"a", "b", "c"}
	for i, name := range names[1:] {
		small := w.Work("small", 1_000_000)
		large := w.Work("large", 300)
		enter, acquire := w.Work("enter", 200), w.Work("acquire", 100)
		a := w.must(Request{Start: name, Stop: names[i], Options: jfr.Options{After: after}})
		after = a.Last
		near(t, "bytes in small objects", total(t, a, jfr.Memory, "_bytes", "Work.small"), small, 4)
		near(t, "small objects", total(t, a, jfr.Memory, "_objects", "Work.small"), small/1016, 4)
		near(t, "bytes in large objects", total(t, a, jfr.Memory, "_bytes", "Work.large"), large, 1)
		near(t, "large objects", total(t, a, jfr.Memory, "_objects", "Work.large"), 300, 1)
		waited(t, "time to enter the monitor", total(t, a, jfr.Mutex, "delay", "Work.enter"), 200*time.Millisecond, enter)
		near(t, "contentions", total(t, a, jfr.Mutex, "contentions", "Work.enter"), 1, 0)
		waited(t, "time to get the lock", total(t, a, jfr.Block, "delay", "Work.acquire"), 100*time.Millisecond, acquire)
	}
	// A recording without work has nothing, although it shares a chunk with the one before.
	a := w.must(Request{Stop: "c", Options: jfr.Options{After: after}})
	for _, value := range []string{"_bytes", "_objects"} {
		if got := total(t, a, jfr.Memory, value, "Work.small"); got != 0 {
			t.Errorf("the program has not worked, and %s is %d", value, got)
		}
	}
	if recordings := w.JCmd("JFR.check"); !strings.Contains(recordings, "No available recordings") {
		t.Errorf("recordings: %s", recordings)
	}
	if found, _ := filepath.Glob("/tmp/.attach_pid" + strconv.Itoa(w.PID)); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
}

// TestEndsByItself has a recording without a request that stops it, as if the profiler had been killed.
func TestEndsByItself(t *testing.T) {
	t.Parallel()
	w := startWorker(t, "java", 0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := Do(ctx, Request{PID: w.PID, Dir: "/tmp", Start: "x", Duration: time.Second, Alloc: true}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the recording ends", func() bool {
		return strings.Contains(w.JCmd("JFR.check"), "No available recordings")
	})
	if _, err := w.do(Request{Stop: "x"}); err == nil || !strings.Contains(err.Error(), "JFR.stop") {
		t.Errorf("stopping it again: %v", err)
	}
}

// TestOfAnotherUser has a VM of a user without rights, who gets its own files.
func TestOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := startWorker(t, "java", 65534)
	w.must(Request{Start: "a"})
	want := w.Work("large", 10)
	near(t, "bytes in large objects", total(t, w.must(Request{Stop: "a"}), jfr.Memory, "_bytes", "Work.large"),
		want, 1)
}

// TestRefused has processes that take no commands. None of them gets a signal: the next line that it prints is an
// answer.
func TestRefused(t *testing.T) {
	t.Parallel()
	argument := filepath.Join(t.TempDir(), "options")
	if err := os.WriteFile(argument, []byte("-XX:+DisableAttachMechanism\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options []string
		want    string
	}{
		"off":            {[]string{"-XX:+DisableAttachMechanism"}, "attach mechanism off: -XX:+DisableAttachMechanism"},
		"off, by a file": {[]string{"@" + argument}, "attach mechanism off: -XX:+DisableAttachMechanism"},
		"off, no counters": {[]string{"-XX:-UsePerfData", "-XX:+DisableAttachMechanism"},
			"attach mechanism off: -XX:+DisableAttachMechanism"},
		"off, by a file, no counters": {[]string{"-XX:-UsePerfData", "@" + argument}, "attach mechanism off: @"},
	} {
		w := startWorker(t, "java", 0, c.options...)
		_, err := w.do(Request{Start: "a"})
		var refused *attach.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.Work("large", 1); got != 3000016 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if a := startWorker(t, "java", 0, "-XX:-UsePerfData").must(Request{Start: "a"}); !a.Started {
		t.Error("without counters, the recording has not started")
	}
	if a := startWorker(t, "java", 0, "-Xrs").must(Request{Start: "a"}); !a.Started { // it has its socket from the start
		t.Error("with -Xrs, the recording has not started")
	}
	spin := testkit.Spin(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := Do(ctx, Request{PID: int(spin), Dir: "/tmp", Start: "a"}); err == nil ||
		!strings.Contains(err.Error(), "no Java VM") {
		t.Errorf("not Java: %v", err)
	}
	w := startWorker(t, "java", 0)
	if _, err := Do(ctx, Request{PID: w.PID, Dir: "/nowhere", Start: "a"}); err == nil ||
		!strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("no folder: %v", err)
	}
	if a := w.must(Request{Start: "a"}); !a.Started {
		t.Error("the recording has not started")
	}
	if _, err := Do(ctx, Request{PID: w.PID, Dir: "/proc/self", Stop: "a"}); err == nil ||
		!strings.Contains(err.Error(), "/proc/self") {
		t.Errorf("a folder without room for files: %v", err)
	}
}
