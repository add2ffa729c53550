package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// testStack is a stack of a profile, outermost frame first.
type testStack struct {
	comm   string
	pid    uint32
	frames []string
	value  int64
}

// testProfile builds a pprof profile from stacks, with the process's name as root
// frame and its ID as a label.
func testProfile(t testing.TB, at time.Time, stacks ...testStack) []byte {
	t.Helper()
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10_309_278,
		TimeNanos: at.UnixNano(), DurationNanos: int64(15 * time.Second),
		Mapping: []*profile.Mapping{
			{ID: 1, File: "/usr/bin/fio", BuildID: "ab12", Start: 0x400000, Limit: 0x500000},
			{ID: 2, File: "/usr/lib/x86_64-linux-gnu/libc.so.6", BuildID: "cd34", Start: 0x7f0000000000, Limit: 0x7f0000200000},
			{ID: 3, File: "[kernel.kallsyms]", Start: 0xffffffff81000000, Limit: 0xffffffffc0000000},
		},
	}
	locations := make(map[string]*profile.Location)
	locate := func(name string) *profile.Location {
		if l := locations[name]; l != nil {
			return l
		}
		id := uint64(len(locations) + 1)
		f := &profile.Function{ID: id, Name: name, SystemName: name}
		l := &profile.Location{ID: id, Mapping: mappingOf(p, name), Address: id * 16, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		locations[name] = l
		return l
	}
	for _, s := range stacks {
		sample := &profile.Sample{Value: []int64{s.value}, Label: map[string][]string{"pid": {fmt.Sprint(s.pid)}}}
		for i := len(s.frames) - 1; i >= 0; i-- {
			sample.Location = append(sample.Location, locate(s.frames[i]))
		}
		sample.Location = append(sample.Location, locate(s.comm))
		p.Sample = append(p.Sample, sample)
	}
	require.NoError(t, p.CheckValid())
	var buf bytes.Buffer
	require.NoError(t, p.Write(&buf))
	return buf.Bytes()
}

// mappingOf guesses the file of a function.
func mappingOf(p *profile.Profile, name string) *profile.Mapping {
	switch {
	case strings.HasPrefix(name, "__libc") || strings.HasPrefix(name, "__mem") || name == "fork" ||
		strings.HasPrefix(name, "io_submit") && len(name) == 9:
		return p.Mapping[1]
	case strings.Contains(name, "syscall") || strings.Contains(name, "SYSCALL") || strings.Contains(name, "filemap") ||
		strings.Contains(name, "iter") ||
		strings.Contains(name, "__x64") || name == "aio_read" || name == "io_submit_one" || name == "read_events":
		return p.Mapping[2]
	default:
		return p.Mapping[0]
	}
}

// fioProfile is what a database-like load looks like.
func fioProfile(t testing.TB, at time.Time) Profile {
	kernel := []string{"entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_io_submit", "io_submit_one",
		"aio_read", "ext4_file_read_iter", "filemap_read"}
	user := []string{"_start", "__libc_start_main.isra.0", "__libc_start_call_main", "fio+0x1f4b0",
		"fio+0x8a2c1", "fio+0x61d02"}
	stack := func(comm string, pid uint32, value int64, parts ...[]string) testStack {
		s := testStack{comm: comm, pid: pid, value: value * 10_309_278}
		for _, p := range parts {
			s.frames = append(s.frames, p...)
		}
		return s
	}
	stacks := []testStack{
		stack("fio", 4711, 620, user, []string{"io_submit"}, kernel, []string{"copy_page_to_iter", "_copy_to_iter"}),
		stack("fio", 4711, 130, user, []string{"io_submit"}, kernel, []string{"filemap_get_pages", "filemap_get_read_batch"}),
		stack("fio", 4711, 90, user, []string{"io_getevents"},
			[]string{"entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_io_getevents", "read_events"}),
		stack("fio", 4712, 240, user, []string{"fio+0x2ff10", "__memcpy_avx_unaligned_erms"}),
		stack("fio", 4712, 60, user, []string{"fio+0x2ff10", "fio.bin+0x30122"}),
		stack("bash", 99, 12,
			[]string{"_start", "__libc_start_main.isra.0", "main", "reader_loop", "execute_command",
				"execute_command_internal", "fork"}),
	}
	return Profile{
		Labels: map[string]string{"__name__": "process_cpu", "service_name": "fio",
			"__container_id__": "4ec0624267de013f5b936c7bc37a6551d95a997fa659d41a9f840e7d32b84378"},
		Data:    testProfile(t, at, stacks...),
		Samples: 1152, WithUser: 1152, Complete: 1151,
		Processes: []Process{{PID: 4711, Comm: "fio", Samples: 840, WithUser: 840, Complete: 840},
			{PID: 4712, Comm: "fio", Samples: 300, WithUser: 300, Complete: 299},
			{PID: 99, Comm: "bash", Samples: 12, WithUser: 12, Complete: 12}},
	}
}

// hostProfile is what the rest of a host does.
func hostProfile(t testing.TB, at time.Time) Profile {
	p := Profile{Labels: map[string]string{"__name__": "process_cpu", "service_name": "host_cpu"}}
	var stacks []testStack
	for i := range 24 {
		comm := fmt.Sprintf("worker-%d", i%9)
		frames := []string{"_start", "__libc_start_main.isra.0", "main", "std::rt::lang_start_internal",
			"tokio::runtime::task::raw::poll"}
		for depth := range i + 4 {
			frames = append(frames, fmt.Sprintf("app::stage_%d::step_%d", i%5, depth))
		}
		n := uint64(40 + 13*i)
		stacks = append(stacks, testStack{comm: comm, pid: uint32(1000 + i), frames: frames, value: int64(n) * 10_309_278})
		p.Processes = append(p.Processes,
			Process{PID: uint32(1000 + i), Comm: comm, Samples: n, WithUser: n, Complete: n - uint64(i%3)})
		p.Samples, p.WithUser, p.Complete = p.Samples+n, p.WithUser+n, p.Complete+n-uint64(i%3)
	}
	p.Data = testProfile(t, at, stacks...)
	return p
}

// testStatus is a healthy profiler's.
func testStatus() Status {
	return Status{
		Healthy: true, Message: "profiling 1 target and all other processes",
		SampleRate: 97, Interval: 15 * time.Second, Targets: 1,
		Processes: 143, Executables: 61, Expected: 232_800, Delivered: 232_791,
		Lost: map[string]uint64{"full_logs": 6, "throttled": 3},
		Languages: []Language{
			{Name: "python 3.11", Named: 12_034, Unnamed: 3, NotRead: 3},
			{Name: "PHP", Unnamed: 17, Hint: "functions of PHP are not named"},
		},
		Outcomes: []Outcome{
			{Name: "complete", Text: "The whole stack.", Good: true, Samples: 98_340},
			{Name: "complete_fp", Text: "The whole stack, too.", Good: true, Samples: 8_211},
			{Name: "kernel_thread", Text: "A thread of the kernel.", Good: true, Samples: 5_902},
			{Name: "no_row", Text: "The file has no unwind rule for this code.", Samples: 210},
			{Name: "no_mapping", Text: "An address outside every file.", Samples: 118},
			{Name: "unreadable_stack", Text: "The stack could not be read.", Samples: 6},
		},
		Incomplete: []Incomplete{
			{File: "/usr/lib/jvm/java-17/lib/server/libjvm.so", Outcome: "no_row", Samples: 201},
			{File: "", Outcome: "no_mapping", Samples: 118},
			{File: "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", Outcome: "no_row", Samples: 9},
		},
		ByName: true, ByPID: true, SampleLabels: []string{"pid"},
	}
}

// testPage returns a page with ten minutes of rounds, ending at end.
func testPage(t testing.TB, end time.Time) *Page {
	page := New(Options{Name: "pyroscope.ebpf.instance", Status: testStatus})
	for at := end.Add(-9 * time.Minute); !at.After(end); at = at.Add(15 * time.Second) {
		page.Add(at.Add(-15*time.Second), at, []Profile{fioProfile(t, at), hostProfile(t, at)})
	}
	return page
}
