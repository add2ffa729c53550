package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/dwarfline"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

const inlining = `
#include <stdlib.h>
static inline __attribute__((always_inline)) int twist(int x) { return x * rand(); }
static inline __attribute__((always_inline)) int both(int x) { return twist(x) + twist(x + 1); }
__attribute__((noinline)) static int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += both(i); return s; }
int main(int argc, char **argv) { return sum(argc); }
`

// TestDWARF compares the frames at every address of two functions with addr2line's, with the DWARF data in the program
// and in the compressed debug file of a stripped program.
func TestDWARF(t *testing.T) {
	program := compile(t, "a.c", inlining, "-O2", "-gdwarf-4", "-Wl,--build-id")
	stripped := filepath.Join(t.TempDir(), "program")
	run(t, "", "strip", "-o", stripped, program)
	id, debugDir := object(t, 1, program).BuildID, t.TempDir()
	debug := writeFile(t, nil, debugDir, ".build-id", id[:2], id[2:]+".debug")
	run(t, "", "objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", program, debug)

	var addrs []uint64
	var list strings.Builder
	for _, f := range nmFunctions(t, program) {
		for at := f.addr; (f.name == "main" || f.name == "sum") && at < f.addr+f.size; at++ {
			addrs = append(addrs, at)
			fmt.Fprintf(&list, "%#x\n", at)
		}
	}
	want := strings.Split(run(t, list.String(), "addr2line", "-a", "-i", "-f", "-e", program), "0x")[1:]
	for _, path := range []string{program, stripped} {
		s, o, inlined := New(Options{DebugDirs: []string{debugDir}}), object(t, 1, path), 0
		for i, at := range addrs {
			got := fmt.Sprintf("%016x\n", at)
			frames := s.Frames(o, at, false)
			for _, f := range frames {
				got += fmt.Sprintf("%s\n%s:%d\n", f.Function, f.File, f.Line)
				if f.Kind != Native {
					t.Errorf("%#x: kind %d", at, f.Kind)
				}
			}
			inlined += len(frames) - 1
			if want := withoutDiscriminators(want[i]); got != want {
				t.Errorf("%s: got\n%swant\n%s", path, got, want)
			}
		}
		if inlined == 0 {
			t.Error("no address is in an inlined function")
		}
		if s.Stats().TableBytes < 1024 {
			t.Error("the memory of the DWARF data is not counted")
		}
		s.Forget(1)
	}
}

func withoutDiscriminators(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i], _, _ = strings.Cut(lines[i], " (discriminator")
	}
	return strings.Join(lines, "\n")
}

// TestTrim: DWARF data does not stay in memory after Trim, and is read again.
func TestTrim(t *testing.T) {
	program := compile(t, "a.c", inlining, "-O2", "-g")
	s, o := New(Options{CacheFrames: 1}), object(t, 1, program)
	resident := func() (kilobytes int) {
		inProgram := false
		for line := range strings.Lines(string(readFile(t, "/proc/self/smaps"))) {
			switch f := strings.Fields(line); {
			case !strings.HasSuffix(f[0], ":"):
				inProgram = strings.Contains(line, program)
			case inProgram && f[0] == "Rss:":
				n, err := strconv.Atoi(f[1])
				if err != nil {
					t.Fatal(err)
				}
				kilobytes += n
			}
		}
		return kilobytes
	}
	s.Trim() // without any data
	var before []Frame
	for round := range 3 {
		for _, f := range nmFunctions(t, program) {
			if f.name != "main" && f.name != "sum" {
				continue
			}
			frames := s.Frames(o, f.addr, false)
			if f.name == "main" && round == 0 {
				before = frames
			}
			if f.name == "main" && !slices.Equal(frames, before) {
				t.Errorf("%+v, before %+v", frames, before)
			}
		}
		if round == 0 && resident() == 0 { // later a part is cached
			t.Error("nothing was mapped")
		}
		s.Trim()
		if n := resident(); n > 0 {
			t.Errorf("%d KiB stay in memory", n)
		}
	}
	s.Forget(1)
	s.Trim()
}

// TestDWARFLinkageName requires the mangled name. The DWARF data of a function without linkage has only its last part.
func TestDWARFLinkageName(t *testing.T) {
	program := compile(t, "a.cc",
		"namespace a { namespace { __attribute__((noinline)) int hidden(int x) { return x; } } }\n"+
			"int main(int c, char **) { return a::hidden(c); }", "-g")
	s, o := New(Options{}), object(t, 1, program)
	for _, f := range nmFunctions(t, program) {
		if strings.Contains(f.name, "hidden") {
			if got := s.Frames(o, f.addr, false); len(got) != 1 || got[0].Function != f.name || got[0].Line != 1 {
				t.Errorf("got %+v, want %s in line 1", got, f.name)
			}
			return
		}
	}
	t.Fatal("the function was left out")
}

// TestDWARFClosed: the mappings of DWARF data are removed when the table is evicted.
func TestDWARFClosed(t *testing.T) {
	program := compile(t, "a.c", inlining, "-O2", "-gdwarf-4", "-gz=zlib")
	finder := &debugFinder{Finder: debugfile.New(nil, nil)}
	o := &Object{ID: 1, Path: program, Open: func() (*elffile.File, error) { return elffile.Open(program) }}
	n, _ := loadNames(o, finder)
	if known, _, _ := n.frames(nmFunctions(t, program)[0].addr); len(known.frames) == 0 {
		t.Fatal("no name")
	}
	if finder.spill.Used() == 0 {
		t.Fatal("no section was decompressed")
	}
	n.close()
	if used := finder.spill.Used(); used != 0 {
		t.Errorf("%d bytes are mapped yet", used)
	}
}

// withDebugInfo returns a program with the given bytes, compressed, as .debug_info and .debug_abbrev.
func withDebugInfo(t *testing.T, content []byte) string {
	t.Helper()
	program := compile(t, "a.c", inlining, "-O2")
	section := writeFile(t, content, t.TempDir(), "section")
	run(t, "", "objcopy", "--add-section", ".debug_info="+section, "--add-section", ".debug_abbrev="+section, program)
	run(t, "", "objcopy", "--compress-debug-sections=zlib", program)
	return program
}

// TestUselessDWARFIsReleased: sections without data for any address do not stay on disk.
func TestUselessDWARFIsReleased(t *testing.T) {
	// units of an unknown version
	program := withDebugInfo(t, bytes.Repeat([]byte{4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 1<<10))
	finder := &debugFinder{Finder: debugfile.New(nil, nil), spill: elffile.Spill{Dir: t.TempDir()}}
	o := &Object{ID: 1, Path: program, Open: func() (*elffile.File, error) { return elffile.Open(program) }}
	n, _ := loadNames(o, finder)
	defer n.close()
	var now usage
	for _, f := range nmFunctions(t, program) {
		if f.name != "main" {
			continue
		}
		var known answer
		if known, now, _ = n.frames(f.addr); len(known.frames) != 1 || known.frames[0].Function != "main" {
			t.Errorf("%+v", known)
		}
	}
	if now.problem == nil {
		t.Error("nobody is told that the data is damaged")
	}
	if used := finder.spill.Used(); used != 0 {
		t.Errorf("%d bytes of sections that say nothing are kept", used)
	}
}

// TestZerosAreDecompressedOnce: without units in .debug_info, no other section is read.
func TestZerosAreDecompressedOnce(t *testing.T) {
	const size = 1 << 20
	file, err := elffile.Open(withDebugInfo(t, make([]byte, size)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	spill := &elffile.Spill{Dir: t.TempDir(), Rate: rate.NewLimiter(0, size)}
	if _, err := dwarfline.Open(file, dwarfline.OpenOptions{Spill: spill}); !errors.Is(err, dwarfline.ErrNoInfo) {
		t.Errorf("%v, want that there are no units", err)
	}
	if used := spill.Used(); used != 0 {
		t.Errorf("%d bytes are kept", used)
	}
}

// TestPartsOfDebugInfo removes files that DWARF data refers to. This must be reported to the user, and the functions
// keep their own names.
func TestPartsOfDebugInfo(t *testing.T) {
	split := compile(t, "a.c", inlining, "-O2", "-g", "-gsplit-dwarf")
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(split), "*.dwo"))
	if err != nil || len(parts) != 1 {
		t.Fatalf("%v, %v", parts, err)
	}
	shared := compile(t, "a.c", inlining, "-O2", "-g")
	common, twin := filepath.Join(filepath.Dir(shared), "common"), shared+"2"
	content, err := os.ReadFile(shared)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, content, twin)
	run(t, "", "dwz", "-m", common, "-M", common, shared, twin)
	for part, program := range map[string]string{parts[0]: split, common: shared} {
		whole, o := New(Options{}), object(t, 1, program)
		var at uint64
		for _, f := range nmFunctions(t, program) {
			if f.name == "sum" {
				at = f.addr + f.size/2
			}
		}
		whole.Frames(o, at, false)
		if problems := whole.Problems(); len(problems) > 0 || whole.Explain(o) != "" {
			t.Errorf("%s is there: %v, %q", part, problems, whole.Explain(o))
		}
		if err := os.Remove(part); err != nil {
			t.Fatal(err)
		}
		s := New(Options{})
		if frames := s.Frames(o, at, false); frames[len(frames)-1].Function != "sum" {
			t.Errorf("%+v", frames)
		}
		name := filepath.Base(part)
		if status, _ := s.Status(o); status.Reason != Named || status.DebugInfo == nil {
			t.Errorf("status %+v", status)
		}
		if problem := s.Problems()[program]; problem == nil || !strings.Contains(problem.Error(), name) ||
			!strings.Contains(problem.Error(), "missing") {
			t.Errorf("problem: %v", problem)
		}
		if text := s.Explain(o); !strings.HasPrefix(text, "the debug info is incomplete; ") ||
			!strings.Contains(text, name) {
			t.Errorf("explained as %q", text)
		}
	}
}
