package gopclntab

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// file implements Image with debug/elf.
type file struct {
	*elf.File
	stripped bool // shown as if it had no sections
}

func (f file) IsGo() bool        { return true }
func (f file) HasSections() bool { return !f.stripped }

func (f file) SectionRange(name string) (start, end uint64, ok bool) {
	s := f.File.Section(name)
	if s == nil || f.stripped {
		return 0, 0, false
	}
	return s.Addr, s.Addr + s.Size, true
}

func (f file) LoadRanges() (ranges [][2]uint64) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			ranges = append(ranges, [2]uint64{p.Vaddr, p.Vaddr + p.Filesz})
		}
	}
	return ranges
}

func (f file) ReadVaddr(b []byte, vaddr uint64) error {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && vaddr >= p.Vaddr && vaddr+uint64(len(b)) <= p.Vaddr+p.Filesz {
			_, err := p.ReadAt(b, int64(vaddr-p.Vaddr))
			return err
		}
	}
	return io.ErrUnexpectedEOF
}

func (f file) RelativeRelocations(yield func(at, value uint64) bool) error {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return err
		}
		for ; len(data) >= 24; data = data[24:] {
			kind := f.ByteOrder.Uint64(data[8:])
			if (kind == uint64(elf.R_X86_64_RELATIVE) || kind == uint64(elf.R_AARCH64_RELATIVE)) &&
				!yield(f.ByteOrder.Uint64(data), f.ByteOrder.Uint64(data[16:])) {
				return nil
			}
		}
	}
	return nil
}

const source1 = `package main

import "fmt"

type T struct{ a, b [64]int }

//go:noinline
func (t *T) Sum() (n int) {
	for i := range t.a {
		n += t.a[i] * t.b[i]
	}
	return n
}

func main() { fmt.Println(new(T).Sum()) }
`

// build builds the program with flags and environment env.
func build(t *testing.T, env []string, flags ...string) string {
	t.Helper()
	return buildSource(t, source1, env, flags...)
}

// buildSource builds a program once and keeps it as a fixture: each target has its own standard
// library, which takes long to compile.
func buildSource(t *testing.T, text string, env []string, flags ...string) string {
	t.Helper()
	files := map[string]string{"main.go": text, "go.mod": "module example.com/sum\n\ngo 1.21\n"}
	key := slices.Concat([]string{runtime.Version(), text, files["go.mod"]}, env, []string{"flags"}, flags)
	if slices.Contains(flags, "-ldflags=-linkmode=external") {
		need.Tools(t, "gcc")
		key = append(key, testkit.Version(t, "gcc"))
	}
	folder := testkit.Fixture(t, "gopclntab", key, func(dir string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		cmd := exec.Command("go", append(append([]string{"build", "-o", "sum"}, flags...), ".")...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		return nil
	})
	return filepath.Join(folder, "sum")
}

func openProgram(t *testing.T, path string, stripped bool) *Table {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tab, err := Open(file{f, stripped})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// nm returns the functions that go tool nm lists, by address. A function may
// have several names.
func nm(t *testing.T, path string) map[uint64][]string {
	t.Helper()
	out, err := exec.Command("go", "tool", "nm", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[uint64][]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.ToUpper(fields[1]) != "T" {
			continue
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		names[addr] = append(names[addr], strings.TrimSuffix(strings.Join(fields[2:], " "), ".abi0"))
	}
	return names
}

// TestPrograms builds a program in several ways. The names must be equal to go tool nm's, and the
// functions must be equal to the functions of the same build before it is stripped, and without its
// sections.
func TestPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		env   []string
		flags []string
	}{
		"plain":           {nil, nil},
		"trimpath":        {nil, []string{"-trimpath"}},
		"pie":             {nil, []string{"-buildmode=pie"}},
		"pie by gcc":      {[]string{"CGO_ENABLED=1"}, []string{"-buildmode=pie", "-ldflags=-linkmode=external"}},
		"not pie, by gcc": {[]string{"CGO_ENABLED=1"}, []string{"-buildmode=exe", "-ldflags=-linkmode=external"}},
		"arm64":           {[]string{"GOARCH=arm64", "CGO_ENABLED=0"}, nil},
		"arm64 pie":       {[]string{"GOARCH=arm64", "CGO_ENABLED=0"}, []string{"-buildmode=pie"}},
		"386":             {[]string{"GOARCH=386", "CGO_ENABLED=0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := build(t, c.env, c.flags...)
			whole := openProgram(t, path, false)
			compareNames(t, whole, nm(t, path))
			compareTables(t, whole, openProgram(t, path, true))
			if !strings.HasSuffix(name, "gcc") {
				compareDeltas(t, whole, path, strings.Fields(name)[0])
			}
		})
	}
	t.Run("stripped", func(t *testing.T) {
		path := build(t, nil)
		stripped := build(t, nil, "-ldflags=-s -w")
		compareNames(t, openProgram(t, stripped, false), nm(t, path))
	})
}

// compareNames compares every function with nm's.
func compareNames(t *testing.T, tab *Table, want map[uint64][]string) {
	t.Helper()
	r, same := tab.NewReader(), 0
	for i := range tab.Len() {
		f, err := r.At(i)
		if err != nil {
			t.Fatal(err)
		}
		name, err := r.Name(&f)
		if err != nil {
			t.Fatal(err)
		}
		names := want[f.Entry]
		found := false
		for _, n := range names {
			found = found || n == strings.ReplaceAll(name, "·", ".") // the symbol table's form
		}
		switch {
		case found:
			same++
		case len(names) > 0 && !strings.HasPrefix(name, "go:") && !strings.Contains(name, "[...]"):
			t.Errorf("%#x: %s, nm says %v", f.Entry, name, names)
		}
		if mid, at, ok, err := r.Find(f.Entry + (f.End-f.Entry)/2); f.End > f.Entry &&
			(!ok || err != nil || at != i || mid != f) {
			t.Fatalf("Find(middle of %s) = %d, %v, %v", name, at, ok, err)
		}
	}
	if same < 1000 || same < tab.Len()*9/10 {
		t.Errorf("%d of %d names agree", same, tab.Len())
	}
}

// compareTables compares tables that were found in different ways.
func compareTables(t *testing.T, a, b *Table) {
	t.Helper()
	if a.Len() != b.Len() {
		t.Fatalf("%d and %d functions", a.Len(), b.Len())
	}
	ra, rb := a.NewReader(), b.NewReader()
	for i := range a.Len() {
		fa, err1 := ra.At(i)
		fb, err2 := rb.At(i)
		if fa != fb || err1 != nil || err2 != nil {
			t.Fatalf("function %d: %+v and %+v, %v, %v", i, fa, fb, err1, err2)
		}
	}
}

// compareDeltas compares stack pointers with the call frame information that the
// linker writes for debuggers, as readelf interprets it: the CFA is the stack
// pointer before the call.
func compareDeltas(t *testing.T, tab *Table, path, machine string) {
	t.Helper()
	need.Tools(t, "readelf")
	cmd := exec.Command("readelf", "--debug-dump=frames-interp", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	base, register := int64(8), "rsp" // the return address
	switch machine {
	case "arm64":
		base, register = 0, "(?:r31|sp)"
	case "386":
		base, register = 4, "esp"
	}
	line := regexp.MustCompile(`^([0-9a-f]{8,16}) ` + register + `\+([0-9]+)`)
	r, compared := tab.NewReader(), 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		pc, _ := strconv.ParseUint(m[1], 16, 64)
		cfa, _ := strconv.ParseInt(m[2], 10, 64)
		if pc == 0 {
			continue // the row before a function's first instruction
		}
		f, _, ok, err := r.Find(pc)
		if err != nil || !ok {
			t.Fatalf("no function at %#x: %v", pc, err)
		}
		got := int64(-1)
		if err := r.SPDeltas(&f, func(start, end uint64, delta int64) bool {
			if pc >= start && pc < end {
				got = delta
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if got+base != cfa {
			t.Errorf("%#x: CFA is sp+%d, readelf says %d", pc, got+base, cfa)
		}
		compared++
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if compared < 3000 {
		t.Errorf("%d rows compared", compared)
	}
}
