package jit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

func TestPerfMap(t *testing.T) {
	m := newTable(DefaultBytes)
	text := "1000 100 first\n0x2000 0x10 JS:~second a file.js:3\nbad line\n\n" +
		"1000 80 replaced\n3000 20 bad\xff\r\n4000 10 not whole"
	if used := m.parsePerfMap([]byte(text)); used != strings.Index(text, "4000") {
		t.Errorf("%d bytes used", used)
	}
	for addr, want := range map[uint64]string{
		0xfff: "", 0x1000: "replaced", 0x107f: "replaced", 0x1080: "first", 0x10ff: "first", 0x1100: "",
		0x2008: "JS:~second a file.js:3", 0x3010: "bad\uFFFD", 0x4000: "",
	} {
		if f, ok := m.findFrame(addr); f.Function != want || ok != (want != "") {
			t.Errorf("%#x is %+v, want %q", addr, f, want)
		}
	}
}

// record writes a record of a jitdump.
func record(order binary.ByteOrder, kind uint32, body []byte) []byte {
	b := make([]byte, dumpPrefix)
	order.PutUint32(b, kind)
	order.PutUint32(b[4:], uint32(dumpPrefix+len(body)))
	return append(b, body...)
}

func words(order binary.ByteOrder, values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
		order.PutUint64(b[len(b)-8:], v)
	}
	return b
}

// sampleDump has a function with lines, a second one, and a move of the first.
func sampleDump(order binary.ByteOrder) []byte {
	b := make([]byte, dumpHeader)
	order.PutUint32(b, dumpMagic)
	order.PutUint32(b[8:], dumpHeader)
	entry := func(addr uint64, line uint32, file string) []byte {
		b := append(words(order, addr), 0, 0, 0, 0, 0, 0, 0, 0)
		order.PutUint32(b[8:], line)
		return append(b, file+"\x00"...)
	}
	lines := append(words(order, 0x1000, 3), entry(0x1000, 5, "a.js")...)
	lines = append(append(lines, entry(0x1010, 6, "\xff")...), entry(0x1020, 1, "b.js")...)
	b = append(b, record(order, recordLines, lines)...)
	load := func(addr, size uint64, name string) []byte {
		return append(append(words(order, 0, addr, addr, size, 1), name+"\x00"...), make([]byte, size)...)
	}
	b = append(b, record(order, recordLoad, load(0x1000, 0x30, "one"))...)
	b = append(b, record(order, recordLoad, load(0x2000, 0x10, "two"))...)
	b = append(b, record(order, 99, []byte("unknown"))...)
	return append(b, record(order, recordMove, words(order, 0, 0x1000, 0x1000, 0x3000, 0x30, 1))...)
}

func TestJitdump(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		m := newTable(DefaultBytes)
		var d dump
		data := sampleDump(order)
		for end, at := 0, 0; end <= len(data); end++ { // byte by byte, as it is written
			used, err := d.parse(m, data[at:end], int64(end-at))
			if err != nil {
				t.Fatal(err)
			}
			at += int(used)
		}
		for addr, want := range map[uint64]Frame{
			0x1000: {"one", "a.js", 5}, 0x101f: {"one", "a.js", 6}, 0x1020: {"one", "b.js", 1}, 0x1030: {},
			0x2000: {"two", "", 0}, 0x3010: {"one", "", 0},
		} {
			if f, _ := m.findFrame(addr); f != want {
				t.Errorf("%v: %#x is %+v, want %+v", order, addr, f, want)
			}
		}
	}
}

// fuzzBytes is a budget that small inputs reach.
const fuzzBytes = 64 << 10

func FuzzJitdump(f *testing.F) {
	f.Add(sampleDump(binary.LittleEndian), uint64(0x1010), uint16(0))
	f.Add(sampleDump(binary.BigEndian), uint64(0x3010), uint16(20))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64, window uint16) {
		defer testkit.Cheap(t, len(data))()
		m := newTable(fuzzBytes)
		var d dump
		for at := int64(0); at < int64(len(data)); {
			b := data[at:]
			if window > 0 {
				b = b[:min(len(b), maxLoad+int(window))]
			}
			used, err := d.parse(m, b, int64(len(data))-at)
			if used < 0 || used > int64(len(data))-at {
				t.Fatalf("%d of %d bytes used", used, int64(len(data))-at)
			}
			if at += used; used == 0 || err != nil {
				break
			}
		}
		m.findFrame(addr)
		m.checkBytes(t, len(d.named))
	})
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("1000 100 first\n0x2000 0x10 second\n"), uint64(0x2001))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		defer testkit.Cheap(t, len(data))()
		m := newTable(fuzzBytes)
		if used := m.parsePerfMap(data); used > len(data) {
			t.Errorf("%d of %d bytes used", used, len(data))
		}
		m.findFrame(addr)
		m.checkBytes(t, 0)
	})
}

func newTable(bytes int) *table {
	return &table{share: share{of: &budget{limit: int64(bytes)}}}
}

// checkBytes compares the memory of a table with its reservation, and the reservation with the budget; one process may
// take half of the budget.
func (t *table) checkBytes(test *testing.T, named int) {
	test.Helper()
	has := int64(cap(t.functions))*int64(unsafe.Sizeof(function{})) + int64(cap(t.lines))*16 + int64(cap(t.names)) +
		int64(named+len(t.files))*mapEntry
	if has > t.share.used {
		test.Errorf("%d bytes, reserved are %d", has, t.share.used)
	}
	if t.share.used > t.share.of.limit/2 || t.share.used != t.share.of.used.Load() {
		test.Errorf("%d bytes reserved, %d in all, of %d", t.share.used, t.share.of.used.Load(), t.share.of.limit)
	}
}

// newProcesses returns a Processes with a budget, and a function that names an address as at the end of an interval.
func newProcesses(t *testing.T, bytes int) (p *Processes, name func(addr uint64) string) {
	t.Helper()
	p = New(procfs.Default, &filework.Pool{}, bytes)
	t.Cleanup(p.Close)
	pid := uint32(os.Getpid())
	return p, func(addr uint64) string {
		t.Helper()
		if k := p.known[pid]; k != nil {
			k.rest = time.Time{} // an interval is longer
		}
		p.Read(pid, []uint64{addr})
		f, _ := p.Frame(pid, addr)
		return f.Function
	}
}

// ownMap returns the path of the map of this process.
func ownMap(t *testing.T) string {
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	t.Cleanup(func() { os.Remove(path) })
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRewrittenMap: names are from the current content of the file, after any change to it.
func TestRewrittenMap(t *testing.T) {
	path := ownMap(t)
	p, name := newProcesses(t, DefaultBytes)
	write(t, path, "1000 10 first\n")
	p.Observe(uint32(os.Getpid()))
	before := ""
	check := func(what, want string) {
		t.Helper()
		if before != "" && before != want {
			if got := name(0x1000); got != NotRead {
				t.Errorf("%s: %q, but code at the address was called %q and is called %q", what, got, before, want)
			}
		}
		before = want
		if got := name(0x1000); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("as it was", "first")
	write(t, path, "1000 10 equal\n")
	check("written over at equal size", "equal")
	write(t, path, "1000 10 other\n2000 10 more\n")
	check("written over by more", "other")
	var old unix.Stat_t
	if err := unix.Stat(path, &old); err != nil {
		t.Fatal(err)
	}
	write(t, path, "1000 10 again\n2000 10 more\n")
	times := []unix.Timespec{old.Atim, old.Mtim}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, times, 0); err != nil {
		t.Fatal(err)
	}
	check("written over at equal size and time", "again")
	write(t, path+".new", "1000 10 moved\n2000 10 more\n")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	check("replaced by another of equal size", "moved")
	write(t, path, "1000 10 s\n")
	check("written over by less", "s")
	os.Remove(path)
	check("removed", "s")
}

// TestNamesOfTheTime: code has its name from the time when it ran. At an address that has had two names since the last
// read, either may be right. A name from an overwritten map may be of later code.
func TestNamesOfTheTime(t *testing.T) {
	path := ownMap(t)
	p := New(procfs.Default, &filework.Pool{}, DefaultBytes)
	t.Cleanup(p.Close)
	pid := uint32(os.Getpid())
	addresses := []uint64{0x1000, 0x2000, 0x3000, 0x4000, 0x5000}
	check := func(what string, want ...string) {
		t.Helper()
		p.known[pid].rest = time.Time{} // an interval is longer
		p.Read(pid, addresses)
		for i, addr := range addresses {
			if f, ok := p.Frame(pid, addr); f.Function != want[i] || ok != (want[i] != "") {
				t.Errorf("%s: %#x is %q, want %q", what, addr, f.Function, want[i])
			}
		}
	}
	write(t, path, "1000 10 first\n2000 10 stays\n3000 10 goes\n")
	p.Observe(pid)
	for deadline := time.Now().Add(time.Minute); p.Stats().Bytes == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the map is not read when the process is observed")
		}
	}
	// The first request comes only after the map was overwritten.
	write(t, path, "1000 10 second\n2000 10 stays\n4000 10 comes\n")
	check("written over", NotRead, "stays", NotRead, NotRead, "")
	check("as it was", "second", "stays", "", "comes", "")
	appendTo(t, path, "1000 10 third\n5000 10 new\n")
	check("appended", NotRead, "stays", "", "comes", "new")
	check("as it was", "third", "stays", "", "comes", "new")
	write(t, path, "1000 10 fourth\n2000 10 stays\n")
	check("by less", NotRead, "stays", "", NotRead, NotRead)
	for i := range 3 {
		write(t, path, fmt.Sprintf("1000 10 generation %d\n2000 10 stays\n", i))
		check("all the time", NotRead, "stays", "", "", "")
	}
	check("at last", "generation 2", "stays", "", "", "")
}

// TestRest: a map that is overwritten once is read at once; a map that is overwritten all the time is read now and
// then.
func TestRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map")
	write(t, path, "1000 10 first\n")
	k := process{tried: true, table: *newTable(DefaultBytes), perf: openGrowing("", path, uint32(os.Getuid()))}
	defer k.perf.close()
	check := func(want string) {
		t.Helper()
		k.readFiles(procfs.Default, 0, []uint64{0x1000})
		if f, _ := k.findFrame(0x1000); f.Function != want {
			t.Errorf("%+v, want %q", f, want)
		}
	}
	check("first")
	appendTo(t, path, "1000 10 appended\n")
	check(NotRead)
	check("appended")
	if !k.rest.IsZero() {
		t.Error("a map that grows rests")
	}
	write(t, path, "1000 10 second\n")
	began := time.Now()
	check(NotRead)
	if rest := time.Until(k.rest); k.rest.IsZero() || rest > min(restShare*time.Since(began), maxRest) {
		t.Errorf("it rests for %v", rest)
	}
	check("second")
	k.rest = time.Now().Add(maxRest)
	write(t, path, "1000 10 third\n")
	check(NotRead)
	write(t, path, "1000 10 fourth\n")
	check(NotRead)
	k.rest = time.Now()
	check("fourth")
	k.rest = time.Now().Add(maxRest)
	appendTo(t, path, "1000 10 grown\n")
	check(NotRead)
	check("grown")
}

// TestRewrittenDump is TestRewrittenMap for a jitdump.
func TestRewrittenDump(t *testing.T) {
	order := binary.LittleEndian
	dumpOf := func(name string) []byte {
		b := make([]byte, dumpHeader)
		order.PutUint32(b, dumpMagic)
		order.PutUint32(b[8:], dumpHeader)
		load := append(words(order, 0, 0x1000, 0x1000, 0x10, 1), name+"\x00"...)
		return append(b, record(order, recordLoad, append(load, make([]byte, 0x10)...))...)
	}
	path := filepath.Join(t.TempDir(), "jit-1.dump")
	write(t, path, string(dumpOf("first")))
	k := process{tried: true, table: *newTable(DefaultBytes), dump: openGrowing("", path, uint32(os.Getuid()))}
	defer k.dump.close()
	for _, want := range []string{"first", "other", "third"} {
		write(t, path, string(dumpOf(want)))
		k.rest = time.Time{}
		k.readFiles(procfs.Default, 0, nil)
		if f, _ := k.table.findFrame(0x1000); f.Function != want {
			t.Errorf("%+v, want %q", f, want)
		}
	}
}

// TestHostileDump: the length in a record has no cost, and the code in a record is not read.
func TestHostileDump(t *testing.T) {
	order := binary.LittleEndian
	b := sampleDump(order)
	prefix := make([]byte, dumpPrefix)
	order.PutUint32(prefix[4:], 1<<32-1) // of 4 GiB
	path := filepath.Join(t.TempDir(), "jit-1.dump")
	write(t, path, string(append(b, prefix...)))
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	k := process{tried: true, table: *newTable(DefaultBytes), dump: openGrowing("", path, uint32(os.Getuid()))}
	defer k.dump.close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	k.readFiles(procfs.Default, 0, nil)
	runtime.ReadMemStats(&after)
	if f, _ := k.table.findFrame(0x2000); f.Function != "two" {
		t.Errorf("%+v", f)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*chunk {
		t.Errorf("%d bytes allocated", got)
	}
	if !k.dump.broken { // zeros follow after 4 GiB
		t.Errorf("read on from %d", k.dump.at)
	}
}

// TestSparseMap: the holes of a map are not read, and the bytes read are bounded however often the map is rewritten.
func TestSparseMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map")
	write(t, path, "1000 10 first\n")
	k := process{tried: true, table: *newTable(DefaultBytes), perf: openGrowing("", path, uint32(os.Getuid()))}
	defer k.perf.close()
	for range 3 {
		if err := os.Truncate(path, 1<<33); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, "\n2000 10 last\n")
		k.rest = time.Time{}
		k.readFiles(procfs.Default, 0, nil)
		for addr, want := range map[uint64]string{0x1000: "first", 0x2000: "last"} {
			if f, _ := k.table.findFrame(addr); f.Function != want {
				t.Errorf("%#x: %+v, want %q", addr, f, want)
			}
		}
		if err := os.Truncate(path, int64(len("1000 10 first\n"))); err != nil {
			t.Fatal(err)
		}
	}
	if k.left.spent > 16*chunk {
		t.Errorf("%d bytes read", k.left.spent)
	}
	k.left.spent, k.rest = MaxRead+1<<20, time.Time{}
	write(t, path, "1000 10 later\n")
	k.readFiles(procfs.Default, 0, nil)
	if f, ok := k.table.findFrame(0x1000); ok {
		t.Errorf("read although nothing is left to read: %+v", f)
	}
}

// TestBudget: one process takes half of the memory that the rest leaves, functions without room are counted, and Forget
// returns the share of a process.
func TestBudget(t *testing.T) {
	const limit = 1 << 20
	path := ownMap(t)
	const functions = 50_000
	write(t, path, bigMap(functions, 8))
	p, name := newProcesses(t, limit)
	pid := uint32(os.Getpid())
	p.Observe(pid)
	if got := name(0x1000); got == "" {
		t.Error("the first function has no name")
	}
	stats := p.Stats()
	kept := uint64(len(p.known[pid].table.functions))
	if stats.Bytes > limit/2 || stats.Bytes < limit/4 || kept == 0 || stats.Dropped != functions-kept {
		t.Errorf("%+v, %d functions kept", stats, kept)
	}
	other := &process{table: table{share: share{of: &p.budget}}}
	other.table.parsePerfMap([]byte(bigMap(functions, 8)))
	if got := other.table.share.used; got > limit/4 || got < limit/16 {
		t.Errorf("the next one has %d of %d bytes", got, limit)
	}
	other.table.clear()
	p.Ended(pid)
	p.Forget(p.Gone())
	if after := p.Stats(); after.Bytes != 0 || after.Dropped < stats.Dropped {
		t.Errorf("afterwards: %+v", after)
	}
}

// bigMap returns a map of n functions from 0x1000 on.
func bigMap(n, nameBytes int) string {
	var text strings.Builder
	pad := strings.Repeat("x", nameBytes)
	for i := range n {
		fmt.Fprintf(&text, "%x 10 %s%08d\n", 0x1000+16*i, pad, i)
	}
	return text.String()
}

func TestProcessWithAMap(t *testing.T) {
	p, name := newProcesses(t, DefaultBytes)
	pid, path := uint32(os.Getpid()), ownMap(t)
	write(t, path, "1000 10 one\n")
	if f, ok := p.Frame(pid, 0x1000); ok {
		t.Errorf("before it was observed: %+v", f)
	}
	p.Observe(pid)
	check := func(addr uint64, want string) {
		t.Helper()
		if got := name(addr); got != want {
			t.Errorf("%#x is %q, want %q", addr, got, want)
		}
	}
	check(0x1000, "one")
	appendTo(t, path, "2000 10 two\n30")
	check(0x2000, "two")
	appendTo(t, path, "00 10 three\n")
	check(0x3005, "three")
	os.Remove(path)
	check(0x3005, "three")
	p.Ended(pid)
	check(0x1000, "one")
	if gone := p.Gone(); len(gone) != 1 || gone[0] != pid {
		t.Errorf("gone: %v", gone)
	}
	p.Forget(p.Gone())
	check(0x1000, "")
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestLongMap reads a map that is longer than one read, and is rewritten later.
func TestLongMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map")
	var text bytes.Buffer
	for i := range 50_000 {
		fmt.Fprintf(&text, "%x 10 function number %d\n", 0x1000+16*i, i)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &process{tried: true, table: *newTable(DefaultBytes), perf: openGrowing("", path, uint32(os.Getuid()))}
	if k.perf == nil {
		t.Fatal("not opened")
	}
	k.readFiles(procfs.Default, 0, nil)
	for _, i := range []int{0, 20_000, 49_999} {
		if f, _ := k.table.findFrame(uint64(0x1000 + 16*i)); f.Function != fmt.Sprint("function number ", i) {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if err := os.WriteFile(path, []byte("1000 10 again\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.readFiles(procfs.Default, 0, nil)
	if f, _ := k.table.findFrame(0x1000); f.Function != "again" || len(k.table.functions) != 1 {
		t.Errorf("%+v", f)
	}
	k.perf.file.Close()
}

const script = `
function hotFunction(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i); return s; }
function turn() { hotFunction(1e5); setImmediate(turn); }
process.stdin.on('end', () => process.exit(0)).resume();
turn();
`

// TestNode reads node's own files. A map and a dump of one process agree on the address of the optimised function.
func TestNode(t *testing.T) {
	need.Tools(t, "node")
	dir := t.TempDir()
	cmd := exec.Command("node", "--perf-basic-prof", "--perf-prof", "-e", script)
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(cmd.Process.Pid)
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.Remove(path)
	})
	hot := func(line string) bool { return strings.Contains(line, "hotFunction") && strings.Contains(line, "*") }
	var start uint64
	for deadline := time.Now().Add(time.Minute); start == 0; time.Sleep(50 * time.Millisecond) {
		content, _ := os.ReadFile(path)
		for line := range strings.Lines(string(content)) {
			if hot(line) && strings.HasSuffix(line, "\n") {
				start, _ = strconv.ParseUint(strings.Fields(line)[0], 16, 64)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("node wrote no map of hotFunction")
		}
	}
	p, _ := newProcesses(t, DefaultBytes)
	p.Observe(pid)
	p.Read(pid, nil)
	if k := p.known[pid]; k.perf == nil || k.dump == nil {
		t.Fatalf("map %v, dump %v", k.perf, k.dump)
	}
	if f, ok := p.Frame(pid, start+1); !ok || !hot(f.Function) {
		t.Errorf("%#x is %+v", start, f)
	}
	// The dump only, which node completes when it exits. The files of a process that is gone stay open.
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	p.Read(pid, nil)
	if f, ok := p.Frame(pid, start+1); !ok || !hot(f.Function) {
		t.Errorf("after its end: %#x is %+v", start, f)
	}
	k := &process{tried: true, table: *newTable(DefaultBytes),
		dump: openGrowing("", filepath.Join(dir, fmt.Sprintf("jit-%d.dump", pid)), uint32(os.Getuid()))}
	if k.dump == nil {
		t.Fatal("no dump")
	}
	defer k.dump.file.Close()
	k.readFiles(procfs.Default, 0, nil)
	if f, ok := k.table.findFrame(start + 1); !ok || !hot(f.Function) {
		t.Errorf("by the dump %#x is %+v; it has %d functions", start, f, len(k.table.functions))
	}
}

// TestDue: a process is checked when it is new, soon again, and finally once a minute.
func TestDue(t *testing.T) {
	var looked []int
	k, begin := &process{}, time.Now()
	for second := range 240 {
		if k.isDue(begin.Add(time.Duration(second) * time.Second)) {
			looked = append(looked, second)
		}
	}
	if want := []int{0, 10, 30, 70, 130, 190}; !slices.Equal(looked, want) {
		t.Errorf("looked after %d seconds, want %d", looked, want)
	}
}
