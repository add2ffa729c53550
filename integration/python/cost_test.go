package python

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// BenchmarkFrame measures the cost of a frame of Debian's Python in the BPF program, as ns/frame: each CPU is busy
// below calls of many functions, all different, first few and then many, and the difference between their samples is
// the cost of the frames. Run it on an otherwise idle machine:
//
//	go test -run '^$' -bench Frame -benchtime 5x ./integration/python
func BenchmarkFrame(b *testing.B) {
	need.Root(b)
	need.Tools(b, "python3")
	const few, many = 20, 120
	h := rig.StartHeadwater(b, `
pyroscope.ebpf "host" {
	forward_to     = []
	targets_only   = false
	sample_rate    = 997
	overhead_limit = 100 // has the kernel count how long BPF programs run
}
`)
	var low, high []float64
	for b.Loop() {
		low = append(low, costOfSample(b, h.PID(), few))
		high = append(high, costOfSample(b, h.PID(), many))
	}
	slices.Sort(low)
	slices.Sort(high)
	one, other := low[len(low)/2], high[len(high)/2]
	b.ReportMetric((other-one)/(many-few), "ns/frame")
	b.ReportMetric(one, "ns/sample")
	b.ReportMetric(0, "ns/op")
}

// costOfSample returns the run time in ns of a sample of Python below that many calls.
func costOfSample(b *testing.B, profiler, calls int) float64 {
	var busy []*rig.Process
	for range runtime.NumCPU() {
		busy = append(busy, rig.Start(b, exec.Command("/usr/bin/python3", "testdata/deep.py", fmt.Sprint(calls))))
	}
	time.Sleep(2 * time.Second) // it is known by then
	before := runsOf(b, profiler)
	time.Sleep(3 * time.Second)
	now := runsOf(b, profiler)
	for _, p := range busy {
		p.Kill(b)
	}
	return (now.ns - before.ns) / (now.count - before.count)
}

type programRuns struct{ count, ns float64 }

// runsOf returns the runs of the program of a process that has run most.
func runsOf(b *testing.B, pid int) (most programRuns) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "prog_type:") {
			continue // it was closed, or is no program
		}
		var r programRuns
		for line := range strings.Lines(string(text)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "run_cnt":
				_, err = fmt.Sscan(value, &r.count)
			case "run_time_ns":
				_, err = fmt.Sscan(value, &r.ns)
			}
			if err != nil {
				b.Fatalf("%s: %q: %v", file, line, err)
			}
		}
		if r.count > most.count {
			most = r
		}
	}
	return most
}
