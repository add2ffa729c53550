package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// nmSymbol is a function as nm shows it.
type nmSymbol struct {
	addr, size uint64
	name       string
}

// nmFunctions lists the functions that have a size.
func nmFunctions(t testing.TB, path string, flags ...string) (functions []nmSymbol) {
	t.Helper()
	for line := range strings.Lines(run(t, "", "nm", append(flags, "-S", "--defined-only", path)...)) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.Contains("tTwWi", f[2]) {
			continue
		}
		name, _, _ := strings.Cut(f[3], "@")
		functions = append(functions, nmSymbol{parseHex(t, f[0]), parseHex(t, f[1]), name})
	}
	if len(functions) == 0 {
		t.Fatalf("nm shows no function of %s", path)
	}
	return functions
}

func parseHex(t testing.TB, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Each function of a real library must have, at its first and last byte, one of the names that nm shows for the same
// range.
func TestFramesMatchNm(t *testing.T) {
	for _, name := range []string{"libc.so.6", "libstdc++.so.6", "libm.so.6"} {
		path := library(t, name)
		functions := nmFunctions(t, path, "-D")
		names := map[string]bool{}
		for _, f := range functions {
			for addr := f.addr; addr < f.addr+f.size; addr++ {
				if addr == f.addr || addr == f.addr+f.size-1 {
					names[fmt.Sprintf("%x %s", addr, f.name)] = true
				}
			}
		}
		s := New(Options{DebugDirs: []string{t.TempDir()}})
		o := object(t, 1, path)
		for _, f := range functions {
			for _, addr := range []uint64{f.addr, f.addr + f.size - 1} {
				frames := s.Frames(o, addr, false)
				if len(frames) != 1 || frames[0].Kind != Native ||
					!names[fmt.Sprintf("%x %s", addr, frames[0].Function)] {
					t.Errorf("%s: %#x is %+v, nm says %s", name, addr, frames, f.name)
				}
			}
		}
		status, ok := s.Status(o)
		if !ok || status.Reason != DebugMissing || status.Err != nil || status.Symbols == 0 {
			t.Errorf("%s: status %+v, %v", name, status, ok)
		}
	}
}

const chain = `
#include <stdio.h>
static __attribute__((noinline)) int inner(int n) { return n * 3 + getchar(); }
__attribute__((noinline)) int outer(int n) { return inner(n) + inner(n + 1); }
__attribute__((weak)) int weak(int n) { return outer(n) + 5; }
int aliased(int n) __attribute__((alias("__aliased")));
int __aliased(int n) { return weak(n) - 2; }
__asm__(".text\n.globl label\nlabel:\n nop\n nop\n nop\n ret\n");
extern void label(void);
__attribute__((section(".other"))) int elsewhere(void) { label(); return 0; }
int main(int argc, char **argv) { return aliased(argc) + elsewhere(); }`

// At every address of the program's text: the function that addr2line names, or an alias, or no name if nm has no
// function there.
func TestFramesMatchAddr2line(t *testing.T) {
	path := compile(t, "a.c", chain, "-O1", "-fno-pie", "-no-pie")
	functions := nmFunctions(t, path)
	var addresses strings.Builder
	var asked []uint64
	for _, f := range functions {
		for addr := f.addr; addr < f.addr+f.size; addr++ {
			asked = append(asked, addr)
			fmt.Fprintf(&addresses, "%#x\n", addr)
		}
	}
	lines := strings.Split(run(t, addresses.String(), "addr2line", "-f", "-e", path), "\n")
	start := map[string]uint64{}
	for _, f := range functions {
		start[f.name] = f.addr
	}
	s, o := New(Options{}), object(t, 1, path)
	for i, addr := range asked {
		got, want := s.Frames(o, addr, false)[0].Function, lines[2*i]
		if at, ok := start[got]; !ok || at != start[want] {
			t.Errorf("%#x is %s, addr2line says %s", addr, got, want)
		}
	}
	status, _ := s.Status(o)
	if status.Reason != Named || status.DebugFile != "" {
		t.Errorf("status %+v", status)
	}
}

func TestReturnAddressMeansTheCall(t *testing.T) {
	path := compile(t, "a.c", chain, "-O1")
	s, o := New(Options{}), object(t, 1, path)
	for _, f := range nmFunctions(t, path) {
		if f.name != "inner" {
			continue
		}
		// A call as the last instruction returns to the end of its function.
		if got := s.Frames(o, f.addr+f.size, true)[0]; got.Function != "inner" {
			t.Errorf("return to the end of inner is %+v", got)
		}
		if got := s.Frames(o, f.addr, true)[0]; got.Function == "inner" {
			t.Errorf("return to the begin of inner is %+v", got)
		}
		if got := s.Frames(o, f.addr, false)[0]; got.Function != "inner" {
			t.Errorf("begin of inner is %+v", got)
		}
	}
	if got := s.Frames(o, 0, true)[0]; got.Kind != Unknown {
		t.Errorf("return to address 0 is %+v", got)
	}
}

func TestAliasesAndLabels(t *testing.T) {
	path := compile(t, "a.c", chain, "-O1", "-fno-pie", "-no-pie")
	s, o := New(Options{}), object(t, 1, path)
	at := func(name string, offset uint64) string {
		for line := range strings.Lines(run(t, "", "nm", path)) {
			if f := strings.Fields(line); len(f) == 3 && f[2] == name {
				return s.Frames(o, parseHex(t, f[0])+offset, false)[0].Function
			}
		}
		t.Fatalf("nm shows no %s", name)
		return ""
	}
	if got := at("__aliased", 1); got != "aliased" {
		t.Errorf("alias: %s", got)
	}
	if got := at("label", 3); got != "label" {
		t.Errorf("label: %s", got)
	}
	if got := at("elsewhere", 0); got != "elsewhere" {
		t.Errorf("function in a section of its own: %s", got)
	}
}

func TestUnknownAddressIsNotItsNeighbour(t *testing.T) {
	path := compile(t, "a.c", chain, "-O1", "-fno-pie", "-no-pie", "-falign-functions=64")
	s, o := New(Options{}), object(t, 1, path)
	o.Path = "/usr/bin/fi\xffo"
	gaps := 0
	functions := nmFunctions(t, path)
	for _, f := range functions {
		end := f.addr + f.size
		if slices.ContainsFunc(functions, func(g nmSymbol) bool { return end >= g.addr && end < g.addr+g.size }) {
			continue
		}
		gaps++
		want := Frame{Function: fmt.Sprintf("fi\uFFFDo+%#x", end)}
		if got := s.Frames(o, end, false); len(got) != 1 || got[0] != want {
			t.Errorf("behind %s: %+v, want %+v", f.name, got, want)
		}
	}
	if gaps < 3 {
		t.Errorf("only %d gaps between functions", gaps)
	}
	if got, want := s.Frames(o, 0xabcdef, true)[0].Function, "fi\uFFFDo+0xabcdee"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := s.Frames(&Object{ID: 9}, 0x10, false)[0].Function; got != "0x10" {
		t.Errorf("an object without a path: %q", got)
	}
}

func TestStatusOfUnreadable(t *testing.T) {
	s := New(Options{})
	calls := 0
	broken := errors.New("gone")
	o := &Object{ID: 3, Path: "/x/y", BuildID: "ab",
		Open: func() (*elffile.File, error) { calls++; return nil, broken }}
	if _, ok := s.Status(o); ok {
		t.Error("a status before anything was asked")
	}
	for addr := range uint64(5) {
		if got := s.Frames(o, addr, false)[0]; got.Kind != Unknown {
			t.Errorf("%+v", got)
		}
	}
	if calls != 1 {
		t.Errorf("opened %d times", calls)
	}
	if status, ok := s.Status(o); !ok || status.Reason != Unreadable || !errors.Is(status.Err, broken) {
		t.Errorf("status %+v, %v", status, ok)
	}
	// The same file can be opened through another process.
	path := compile(t, "a.c", chain)
	other := object(t, 4, path)
	o.Source = other
	main := nmAddress(t, path, "main")
	if got := s.Frames(other, main, false)[0]; got.Function != "main" {
		t.Errorf("%+v", got)
	}
	s.Forget(3)
	if got := s.Frames(o, main, false)[0]; got.Function != "main" {
		t.Errorf("by its source: %+v", got)
	}
	// An object that could not be opened for lack of descriptors can be opened later.
	later := object(t, 6, path)
	open := later.Open
	later.Open = func() (*elffile.File, error) { return nil, fmt.Errorf("open %s: %w", path, unix.EMFILE) }
	if got := s.Frames(later, main, false)[0]; got.Kind != Unknown {
		t.Errorf("without descriptors: %+v", got)
	}
	later.Open = open
	s.Refresh()
	if got := s.Frames(later, main, false)[0]; got.Function != "main" {
		t.Errorf("once there are descriptors: %+v", got)
	}
	stripped := compile(t, "a.c", "void _start(void) {}", "-nostdlib", "-static", "-s")
	bare := object(t, 5, stripped)
	s.Frames(bare, 1, false)
	if status, _ := s.Status(bare); status.Reason != NoSymbols {
		t.Errorf("stripped: %+v", status)
	}
}

func nmAddress(t testing.TB, path, name string) uint64 {
	t.Helper()
	for _, f := range nmFunctions(t, path) {
		if f.name == name {
			return f.addr
		}
	}
	t.Fatalf("nm shows no %s in %s", name, path)
	return 0
}

// The vdso is an object like any other, but read from memory.
func TestVDSO(t *testing.T) {
	mappings, err := procfs.Default.ExecMappings(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for _, m := range mappings {
		if m.Path != procfs.VDSO {
			continue
		}
		image := make([]byte, m.End-m.Start)
		if _, err := memory.ReadAt(image, int64(m.Start)); err != nil {
			t.Fatal(err)
		}
		path := writeFile(t, image, t.TempDir(), "vdso.so")
		o := &Object{ID: 1, Path: m.Path, Open: func() (*elffile.File,
			error) {
			return elffile.New(bytes.NewReader(image))
		}}
		s := New(Options{})
		for _, f := range nmFunctions(t, path, "-D") {
			if got := s.Frames(o, f.addr+f.size-1, false)[0]; got.Kind != Native ||
				!strings.HasSuffix(got.Function, strings.TrimPrefix(f.name, "__vdso_")) {
				t.Errorf("%s: %+v", f.name, got)
			}
		}
		if got := s.Frames(o, 1<<40, false)[0].Function; got != "[vdso]+0x10000000000" {
			t.Errorf("unknown: %q", got)
		}
		return
	}
	need.Missing(t, "this process has no vdso")
}

func TestBudgetDropsTheLeastRecent(t *testing.T) {
	path := compile(t, "a.c", chain)
	main := nmAddress(t, path, "main")
	opened := map[uint32]int{}
	objects := make([]*Object, 3)
	for i := range objects {
		o := object(t, uint32(i), path)
		read := o.Open
		o.Open = func() (*elffile.File, error) { opened[o.ID]++; return read() }
		objects[i] = o
	}
	s := New(Options{TableBytes: 1})
	s.Frames(objects[0], main, false)
	status, _ := s.Status(objects[0])
	if status.Bytes == 0 || s.Stats().Tables != 1 {
		t.Fatalf("status %+v, stats %+v: the only table must stay", status, s.Stats())
	}

	s = New(Options{TableBytes: 2 * (status.Bytes + entryOverhead), CacheFrames: 1})
	clear(opened)
	for n, i := range []int{0, 1, 0, 2, 0, 1} { // 2 displaces 1, then 1 displaces 2
		if got := s.Frames(objects[i], main+uint64(n), false)[0]; got.Function != "main" {
			t.Errorf("%+v", got)
		}
	}
	if opened[0] != 1 || opened[1] != 2 || opened[2] != 1 {
		t.Errorf("opened %v times, want 1, 2 and 1", opened)
	}
	if stats := s.Stats(); stats.Tables != 2 || stats.TableBytes > 2*(status.Bytes+entryOverhead) {
		t.Errorf("stats %+v", stats)
	}
	for i := range objects {
		s.Forget(uint32(i))
	}
	if stats := s.Stats(); stats != (Stats{}) {
		t.Errorf("after Forget: %+v", stats)
	}
}

func TestFrameCacheIsBounded(t *testing.T) {
	path := compile(t, "a.c", chain)
	s, o := New(Options{CacheFrames: 100}), object(t, 1, path)
	for addr := range uint64(10_000) {
		s.Frames(o, addr, false)
		s.Frames(o, 1, true)
	}
	if n := s.Stats().Frames; n > 100 {
		t.Errorf("%d frames in a cache of 100", n)
	}
	if s.frames.getFrames(1, 0) == nil {
		t.Error("an address in constant use was dropped")
	}
}

func TestConcurrentUse(t *testing.T) {
	path := compile(t, "a.c", chain)
	main := nmAddress(t, path, "main")
	var mu sync.Mutex
	opened := 0
	s := New(Options{CacheFrames: 8})
	source := object(t, 100, path)
	read := source.Open
	source.Open = func() (*elffile.File, error) {
		mu.Lock()
		opened++
		mu.Unlock()
		return read()
	}
	var wait sync.WaitGroup
	for i := range 8 {
		o := object(t, uint32(i), path)
		o.Source = source
		wait.Go(func() {
			for n := range 200 {
				if got := s.Frames(o, main, n%2 == 1)[0]; n%2 == 0 && got.Function != "main" {
					t.Errorf("%+v", got)
				}
				s.Status(o)
				s.Stats()
				s.Kernel(uint64(n), false)
				if n%50 == 0 {
					s.Forget(o.ID)
				}
			}
		})
	}
	wait.Wait()
	if opened != 1 {
		t.Errorf("one source was read %d times", opened)
	}
}

// TestEqualBuildIDsShareNothing has two programs with one build ID: each has its own names.
func TestEqualBuildIDsShareNothing(t *testing.T) {
	s := New(Options{})
	for i, name := range []string{"first", "second"} {
		path := compile(t, "a.c", "int "+name+"(void) { return 1; } int main(void) { return "+name+"(); }",
			"-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567")
		if got := s.Frames(object(t, uint32(i), path), nmAddress(t, path, name), false)[0]; got.Function != name {
			t.Errorf("%s is called %s", name, got.Function)
		}
	}
}
