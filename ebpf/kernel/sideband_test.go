package kernel

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// A full buffer reports lost records at once; the kernel reports their number when the buffer has room again.
func TestLostRecords(t *testing.T) {
	need.Root(t)
	s, err := OpenSideBand()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := func() (lost []Record) {
		t.Helper()
		records, _, err := s.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Kind == RecordLost {
				lost = append(lost, r)
			}
		}
		return lost
	}
	if lost := read(); len(lost) > 0 {
		t.Fatalf("lost before anything happened: %+v", lost)
	}
	testkit.Eventually(t, "the buffers are full", func() bool {
		mapCode(t, 1000)
		full := true
		for _, r := range s.rings {
			full = full && r.filled()+maxRecord > uint64(len(r.data))
		}
		return full
	})
	mapCode(t, 100) // these records are lost
	lost := read()
	full := 0
	now := clock.Monotonic()
	for _, r := range lost {
		if r.Count == 0 {
			full++
		}
		if r.Since == 0 || r.Since >= r.Time || r.Time > now {
			t.Errorf("records of %d to %d are lost, it is %d", r.Since, r.Time, now)
		}
	}
	if full != len(s.rings) {
		t.Errorf("%d of %d full buffers report lost records: %+v", full, len(s.rings), lost)
	}
	mapCode(t, 20)
	count := uint64(0)
	for _, r := range read() {
		count += r.Count
	}
	if count < 100 {
		t.Errorf("the kernel reports %d lost records of 100 mappings a CPU", count)
	}
}

// mapCode maps and unmaps executable memory that many times on each CPU: each time makes a record.
func mapCode(t *testing.T, times int) {
	t.Helper()
	cpus, err := onlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // and never unlocked: the thread with its one CPU ends with the goroutine
	for _, cpu := range cpus {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		for range times {
			code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC,
				unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				t.Fatal(err)
			}
			unix.Munmap(code)
		}
	}
}
