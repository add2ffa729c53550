package offcpu

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/integration/testkit/need"
)

// BenchmarkPass measures the CPU time of a pass over threads that have all stayed where they were.
func BenchmarkPass(b *testing.B) {
	need.Root(b)
	program := filepath.Join(b.TempDir(), "hwwaits")
	need.Tools(b, "gcc")
	source := "../../../integration/lab/bench/testdata/waits.c"
	if out, err := exec.Command("gcc", "-O2", "-pthread", "-o", program, source).CombinedOutput(); err != nil {
		b.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, n := range []int{1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkPass(b, program, n) })
	}
}

func benchmarkPass(b *testing.B, program string, n int) {
	idle := exec.Command(program, "threads", strconv.Itoa(n), "0")
	if err := idle.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = idle.Process.Kill()
		_ = idle.Wait() // it says that it was killed
	}()
	pid := uint32(idle.Process.Pid)
	taker, err := snapshot.Open(pid)
	taker = need.Opened[*kernel.PermissionError](b, taker, err)
	threads, err := kernel.OpenThreads()
	if err != nil {
		b.Fatal(err)
	}
	defer threads.Close()
	c := New(Options{
		Passes: threads, Completer: taker.Sampler(), MaxReads: n + 1,
		Target: func(p uint32) (*target.Target, bool) { return nil, p == pid },
		Use:    func(*sampler.Sample) {},
	})
	for end := time.Now().Add(time.Minute); c.Stats().Kept <= uint64(n); time.Sleep(100 * time.Millisecond) {
		if err := c.Pass(); err != nil || time.Now().After(end) {
			b.Fatalf("%+v, %v", c.Stats(), err)
		}
	}
	before, begun := c.Stats().Read, processTime(b)
	for b.Loop() {
		if err := c.Pass(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processTime(b)-begun)/float64(b.N*n), "CPU-ns/thread")
	if read := c.Stats().Read - before; read > 0 {
		b.Errorf("%d stacks of threads that stay were read", read)
	}
}

// processTime returns the CPU time of this process.
func processTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
