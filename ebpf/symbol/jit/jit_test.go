package jit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

func TestPerfMap(t *testing.T) {
	var m table
	text := "1000 100 first\n0x2000 0x10 JS:~second a file.js:3\nbad line\n\n1000 80 replaced\n3000 20 bad\xff\r\n4000 10 not whole"
	if used := m.parsePerfMap([]byte(text)); used != strings.Index(text, "4000") {
		t.Errorf("%d bytes used", used)
	}
	for addr, want := range map[uint64]string{
		0xfff: "", 0x1000: "replaced", 0x107f: "replaced", 0x1080: "first", 0x10ff: "first", 0x1100: "",
		0x2008: "JS:~second a file.js:3", 0x3010: "bad\uFFFD", 0x4000: "",
	} {
		if f, ok := m.find(addr); f.Function != want || ok != (want != "") {
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

// sampleDump has a function with lines, another, and the first one moved.
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
		var m table
		var d dump
		data := sampleDump(order)
		for end, at := 0, 0; end <= len(data); end++ { // as it is written, byte by byte
			used, _, err := d.parse(&m, data[at:end])
			if err != nil {
				t.Fatal(err)
			}
			at += used
		}
		for addr, want := range map[uint64]Frame{
			0x1000: {"one", "a.js", 5}, 0x101f: {"one", "a.js", 6}, 0x1020: {"one", "b.js", 1}, 0x1030: {},
			0x2000: {"two", "", 0}, 0x3010: {"one", "", 0},
		} {
			if f, _ := m.find(addr); f != want {
				t.Errorf("%v: %#x is %+v, want %+v", order, addr, f, want)
			}
		}
	}
}

func FuzzJitdump(f *testing.F) {
	f.Add(sampleDump(binary.LittleEndian), uint64(0x1010))
	f.Add(sampleDump(binary.BigEndian), uint64(0x3010))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		var m table
		var d dump
		used, _, err := d.parse(&m, data)
		if used > len(data) || err == nil && used == 0 && len(data) > 1<<20 {
			t.Errorf("%d of %d bytes used", used, len(data))
		}
		m.find(addr)
		if m.bytes() > 64*len(data)+1<<16 {
			t.Errorf("%d bytes for %d", m.bytes(), len(data))
		}
	})
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("1000 100 first\n0x2000 0x10 second\n"), uint64(0x2001))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		var m table
		if used := m.parsePerfMap(data); used > len(data) {
			t.Errorf("%d of %d bytes used", used, len(data))
		}
		m.find(addr)
	})
}

func TestProcessWithAMap(t *testing.T) {
	p, pid := New(procfs.Default), uint32(os.Getpid())
	defer p.Close()
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if err := os.WriteFile(path, []byte("1000 10 one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	if f, ok := p.Frame(pid, 0x1000); ok {
		t.Errorf("before it was observed: %+v", f)
	}
	p.Observe(pid)
	check := func(addr uint64, want string) {
		t.Helper()
		if f, _ := p.Frame(pid, addr); f.Function != want {
			t.Errorf("%#x is %+v, want %q", addr, f, want)
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

// TestLongMap reads a map that is longer than what is read at once, and written
// anew while we know it.
func TestLongMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map")
	var text bytes.Buffer
	for i := range 50_000 {
		fmt.Fprintf(&text, "%x 10 function number %d\n", 0x1000+16*i, i)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &process{perf: openGrowing("", path, uint32(os.Getuid()))}
	if k.perf == nil {
		t.Fatal("not opened")
	}
	k.read()
	for _, i := range []int{0, 20_000, 49_999} {
		if f, _ := k.table.find(uint64(0x1000 + 16*i)); f.Function != fmt.Sprint("function number ", i) {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if err := os.WriteFile(path, []byte("1000 10 anew\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.read()
	if f, _ := k.table.find(0x1000); f.Function != "anew" || len(k.table.functions) != 1 {
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

// TestNode reads what node writes. A map and a dump of one process agree on where
// the optimised function is.
func TestNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("REQUIRE_KERNEL") == "1" {
			t.Fatal("REQUIRE_KERNEL=1 but node is not installed")
		}
		t.Skip("node is not installed")
	}
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
	p := New(procfs.Default)
	defer p.Close()
	p.Observe(pid)
	if k := p.known[pid]; k.perf == nil || k.dump == nil {
		t.Fatalf("map %v, dump %v", k.perf, k.dump)
	}
	if f, ok := p.Frame(pid, start+1); !ok || !hot(f.Function) {
		t.Errorf("%#x is %+v", start, f)
	}
	// The dump alone, which node writes to the end when it ends. The files of a
	// process that is gone stay open.
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if f, ok := p.Frame(pid, start+1); !ok || !hot(f.Function) {
		t.Errorf("after its end: %#x is %+v", start, f)
	}
	k := &process{dump: openGrowing("", filepath.Join(dir, fmt.Sprintf("jit-%d.dump", pid)), uint32(os.Getuid()))}
	if k.dump == nil {
		t.Fatal("no dump")
	}
	defer k.dump.file.Close()
	k.read()
	if f, ok := k.table.find(start + 1); !ok || !hot(f.Function) {
		t.Errorf("by the dump %#x is %+v; it has %d functions", start, f, len(k.table.functions))
	}
}

// bytes returns the memory of the table, about.
func (t *table) bytes() int {
	return cap(t.functions)*32 + cap(t.lines)*16 + cap(t.names)
}
