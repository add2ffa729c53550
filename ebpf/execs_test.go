package ebpf

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestExecLoops: programs that end after a millisecond have whole stacks also at a high rate, though each is new to the
// profiler.
func TestExecLoops(t *testing.T) {
	if !testkit.IsNightly() {
		t.Parallel() // at night nothing else keeps the CPUs busy
	}
	need.Root(t)
	const name = "hwexec" // of the shell and of the program that it runs, except for a letter
	dir := t.TempDir()
	for suffix, path := range map[string]string{"s": "/bin/sh", "t": "/bin/true"} {
		testkit.CopyProgram(t, path, filepath.Join(dir, name+suffix))
	}
	for range 2 {
		testkit.Run(t, exec.Command(filepath.Join(dir, name+"s"), "-c", "while :; do "+filepath.Join(dir, name+"t")+"; done"))
	}
	o := Options{}
	o.SampleRate, o.Comm = 997, CommLabel
	s := start(t, o)
	defer s.Close()
	var e ends
	unknown := map[bool]int64{}
	collectUntil(t, s, "programs that end at once have samples", func(more []Profile) bool {
		for _, p := range more {
			for _, sample := range p.Pprof.Sample {
				if comm := fmt.Sprint(sample.Label["comm"]); !strings.HasPrefix(comm, "["+name) {
					continue
				}
				e.add(p, sample)
				names := frameNames(sample)
				unknown[strings.HasPrefix(names[len(names)-1], "[incomplete: process_unknown")] += sample.Value[0] / p.Pprof.Period
			}
		}
		time.Sleep(time.Second) // an agent collects every 15 s: stacks must not depend on it
		return e.whole >= 2000
	})
	stats := s.Stats()
	all := e.whole + e.unready + e.broken
	t.Logf("%v, %d of unknown processes; %d copied, %d not; %v",
		&e, unknown[true], stats.StackCopies, stats.StacksUncopied, stats.Outcomes)
	// On a machine with busy CPUs, processes end before they are known, and stacks come too fast to be copied, which is
	// counted. That is judged at night.
	mostIncomplete, mostUnknown := all/5, all/5
	if testkit.IsNightly() {
		mostIncomplete, mostUnknown = all/20, all/50
	}
	if e.unready+e.broken-int64(stats.StacksUncopied) > mostIncomplete || unknown[true] > mostUnknown {
		t.Errorf("%v, of %d which processes that are said to be unknown", &e, unknown[true])
	}
}
