package kernel

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/integration/testkit"
)

// body builds the bytes of a record after its header.
type body []byte

func (b body) u32(v ...uint32) body {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}

func (b body) u64(v ...uint64) body {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint64(b, x)
	}
	return b
}

func (b body) text(s string, size int) body {
	return append(b, append([]byte(s), make([]byte, size-len(s))...)...)
}

// Layouts are from perf_event_open(2), "MMAP layout".
func TestParseRecord(t *testing.T) {
	const exec, read = unix.PROT_EXEC | unix.PROT_READ, unix.PROT_READ
	mapped := procfs.Mapping{Start: 0x1000, End: 0x3000, Offset: 0x4000, Path: "/lib/x.so"}
	mapped.Dev, mapped.Inode, mapped.Generation = unix.Mkdev(8, 1), 77, 3
	shared := mapped
	shared.Perms = procfs.Shared
	written := mapped
	written.Perms = procfs.Write
	for _, c := range []struct {
		name string
		kind uint32
		misc uint16
		body body
		want []Record
	}{
		{
			"mapping", unix.PERF_RECORD_MMAP2, 0,
			body{}.u32(5, 6).u64(0x1000, 0x2000, 0x4000).u32(8, 1).u64(77, 3).u32(exec, 0).
				text("/lib/x.so", 16).u64(99),
			[]Record{{Kind: RecordMap, Time: 99, PID: 5, Mapping: mapped}},
		},
		{
			"mapping of memory for code", unix.PERF_RECORD_MMAP2, 0,
			body{}.u32(5, 6).u64(0x1000, 0x2000, 0x4000).u32(8, 1).u64(77, 3).u32(exec|unix.PROT_WRITE, unix.MAP_PRIVATE).
				text("/lib/x.so", 16).u64(99),
			[]Record{{Kind: RecordMap, Time: 99, PID: 5, Mapping: written}},
		},
		{
			"shared mapping", unix.PERF_RECORD_MMAP2, 0,
			body{}.u32(5, 6).u64(0x1000, 0x2000, 0x4000).u32(8, 1).u64(77, 3).u32(exec, unix.MAP_SHARED).
				text("/lib/x.so", 16).u64(99),
			[]Record{{Kind: RecordMap, Time: 99, PID: 5, Mapping: shared}},
		},
		{
			"data", unix.PERF_RECORD_MMAP2, 0,
			body{}.u32(5, 6).u64(0x1000, 0x2000, 0x4000).u32(8, 1).u64(77, 3).u32(read, 0).
				text("/lib/x.so", 16).u64(99),
			nil,
		},
		{
			"mapping past the end of memory", unix.PERF_RECORD_MMAP2, 0,
			body{}.u32(5, 6).u64(1<<63, 1<<63, 0).u32(8, 1).u64(77, 3).u32(exec, 0).text("x", 8).u64(99),
			nil,
		},
		{"program", unix.PERF_RECORD_COMM, unix.PERF_RECORD_MISC_COMM_EXEC, body{}.u32(5, 5).text("cat", 8).u64(99),
			[]Record{{Kind: RecordExec, Time: 99, PID: 5, Comm: "cat"}}},
		{"name", unix.PERF_RECORD_COMM, 0, body{}.u32(5, 5).text("cat", 8).u64(99),
			[]Record{{Kind: RecordComm, Time: 99, PID: 5, Comm: "cat"}}},
		{"name of a thread", unix.PERF_RECORD_COMM, 0, body{}.u32(5, 6).text("cat", 8).u64(99), nil},
		{"fork", unix.PERF_RECORD_FORK, 0, body{}.u32(7, 5, 7, 6).u64(1).u64(99),
			[]Record{{Kind: RecordFork, Time: 99, PID: 7, Parent: 5}}},
		{"new thread", unix.PERF_RECORD_FORK, 0, body{}.u32(5, 5, 7, 6).u64(1).u64(99), nil},
		{"exit", unix.PERF_RECORD_EXIT, 0, body{}.u32(7, 5, 7, 5).u64(1).u64(99),
			[]Record{{Kind: RecordExit, Time: 99, PID: 7, Parent: 5}}},
		{"end of a thread", unix.PERF_RECORD_EXIT, 0, body{}.u32(7, 7, 8, 7).u64(1).u64(99), nil},
		{"lost", unix.PERF_RECORD_LOST, 0, body{}.u64(1, 2).u64(99), []Record{{Kind: RecordLost, Time: 99, Count: 2}}},
		{"cut", unix.PERF_RECORD_MMAP2, 0, body{}.u32(5, 6).u64(99), nil},
		{"of another kind", unix.PERF_RECORD_THROTTLE, 0, body{}.u64(1, 2, 3).u64(99), nil},
	} {
		if d := cmp.Diff(c.want, parseRecord(nil, nil, c.kind, c.misc, c.body)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.name, d)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(uint32(unix.PERF_RECORD_MMAP2), uint16(1<<14),
		[]byte(body{}.u32(5, 6).u64(0x1000, 0x2000, 0).u32(255, 2, 3, 4, 5, 6).u32(4, 0).text("x", 8).u64(9)))
	f.Fuzz(func(t *testing.T, kind uint32, misc uint16, b []byte) {
		for _, r := range parseRecord(nil, nil, kind, misc, b) {
			if r.Kind == RecordMap && r.Mapping.End < r.Mapping.Start {
				t.Errorf("mapping from 0x%x to 0x%x", r.Mapping.Start, r.Mapping.End)
			}
		}
	})
}

// program is a program to start: ls or, where there is none, this program, which then does no work.
func program(t *testing.T) *exec.Cmd {
	t.Helper()
	if path, err := exec.LookPath("ls"); err == nil {
		return exec.Command(path, "/")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(self, "-test.run=^$")
}

// TestSideBand starts a program and expects its life in the records, with libc's device and inode as in stat(2).
func TestSideBand(t *testing.T) {
	load(t) // for its skip without privileges
	s, err := OpenSideBand()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var cmd *exec.Cmd
	var name string
	var pid uint32
	var seen map[RecordKind]int
	var libc procfs.Mapping
	var last uint64
	begin := func() {
		cmd = program(t)
		name = filepath.Base(cmd.Path)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pid = uint32(cmd.Process.Pid)
		seen, libc, last = map[RecordKind]int{}, procfs.Mapping{}, 0
	}
	begin()
	testkit.Eventually(t, "the program has ended", func() bool {
		records, _, err := s.Read()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(records, func(r Record) bool { return r.Kind == RecordLost }) {
			begin() // other programs have filled a buffer
			return false
		}
		for _, r := range records {
			if r.PID != pid {
				continue
			}
			if r.Time < last {
				t.Errorf("record %+v comes after one of time %d", r, last)
			}
			last = r.Time
			seen[r.Kind]++
			if r.Kind == RecordExec && r.Comm != name[:min(len(name), 15)] {
				t.Errorf("program is called %q, want %s", r.Comm, name)
			}
			if strings.Contains(r.Mapping.Path, "/libc.so") {
				libc = r.Mapping
			}
		}
		return seen[RecordExit] > 0
	})
	if seen[RecordExec] != 1 || seen[RecordMap] < 1 || seen[RecordExit] != 1 {
		t.Errorf("records by kind %v, want one exec, some mappings, one exit", seen)
	}
	if name != "ls" {
		return
	}
	var want unix.Stat_t
	if err := unix.Stat(libc.Path, &want); err != nil {
		t.Fatal(err)
	}
	if libc.Inode != want.Ino || libc.Dev != want.Dev && unix.Major(want.Dev) != 0 { // overlayfs may have two
		t.Errorf("libc is %+v, stat says device 0x%x, inode %d", libc, want.Dev, want.Ino)
	}
}

// TestSideBandWait: records that do not fill a buffer cause no wakeup, records that do wake the waiter.
func TestSideBandWait(t *testing.T) {
	load(t) // for its skip without privileges
	s, err := OpenSideBand()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waited := make(chan error, 1)
	go func() { waited <- s.Wait() }()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for range 100 { // each makes a record
			code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC,
				unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				t.Fatal(err)
			}
			unix.Munmap(code)
		}
		select {
		case err := <-waited:
			records, _, _ := s.Read()
			if err != nil || len(records) < 100 {
				t.Errorf("woken by %d records, %v", len(records), err)
			}
			return
		default:
		}
	}
	t.Error("nobody was woken")
	s.Stop()
	<-waited
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,7": {0, 2, 3, 7}} {
		if got, err := parseCPUs(list); err != nil || !cmp.Equal(got, want) {
			t.Errorf("CPUs %q: %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"", "x", "3-1", "-1", "0-99999999"} {
		if got, err := parseCPUs(list); err == nil {
			t.Errorf("CPUs %q: %v, want an error", list, got)
		}
	}
}

func TestMissingCapabilities(t *testing.T) {
	all, err := effectiveCapabilities("Name:\tx\nCapEff:\t000001ffffffffff\n")
	if err != nil || len(missingCapabilities(all)) != 0 {
		t.Errorf("root lacks %v, %v", missingCapabilities(all), err)
	}
	if missing := missingCapabilities(0); len(missing) != len(neededCapabilities()) {
		t.Errorf("without any capability, only %v are missing", missing)
	}
	admin := uint64(1) << unix.CAP_SYS_ADMIN
	if d := cmp.Diff([]string{"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}, missingCapabilities(admin)); d != "" {
		t.Errorf("with CAP_SYS_ADMIN alone: -want +got\n%s", d)
	}
}
