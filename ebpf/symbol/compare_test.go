package symbol

import (
	"debug/elf"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// namesAt returns the names that nm knows for each of some addresses: of the innermost symbols that cover it, or none.
func namesAt(symbols []nmSymbol, addresses []uint64) map[uint64][]string {
	slices.SortFunc(symbols, func(a, b nmSymbol) int {
		switch {
		case a.addr < b.addr:
			return -1
		case a.addr > b.addr:
			return 1
		}
		return 0
	})
	longest := uint64(0)
	for _, s := range symbols {
		longest = max(longest, s.size)
	}
	names := map[uint64][]string{}
	for _, at := range addresses {
		i, _ := slices.BinarySearchFunc(symbols, at+1, func(s nmSymbol, at uint64) int {
			if s.addr < at {
				return -1
			}
			return 1
		})
		start, size := uint64(0), uint64(1<<63)
		for i--; i >= 0 && at-symbols[i].addr < longest; i-- {
			s := symbols[i]
			switch {
			case at-s.addr >= s.size || s.addr < start:
			case s.addr > start || s.size < size:
				start, size, names[at] = s.addr, s.size, []string{s.name}
			case s.addr == start && s.size == size:
				names[at] = append(names[at], s.name)
			}
		}
	}
	return names
}

// sameSource compares names without the compiler's suffixes for parts of functions, such as ".cold", which DWARF omits.
func sameSource(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b
}

// TestNamesMatchNm compares 20,000 random addresses in the text of each of some large programs with nm: at least 999 of
// 1,000 must have the same name.
func TestNamesMatchNm(t *testing.T) {
	for _, name := range []string{"libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libLLVM-14.so.1", "node", "perl",
		"python3"} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath("/usr/bin/" + name)
			if err != nil {
				found, _ := filepath.Glob("/usr/lib/*/" + name)
				if len(found) == 0 {
					need.Missing(t, "%s is not installed", name)
				}
				path = found[0]
			}
			if path, err = filepath.EvalSymlinks(path); err != nil {
				t.Fatal(err)
			}
			flags, labels := []string{"-D"}, map[string]bool{}
			if f, err := elf.Open(path); err != nil {
				t.Fatal(err)
			} else if f.Close(); f.Section(".symtab") != nil {
				flags = nil
				for line := range strings.Lines(run(t, "", "nm", "--defined-only", path)) {
					if f := strings.Fields(line); len(f) == 3 {
						labels[f[2]] = true
					}
				}
			}
			symbols := nmFunctions(t, path, flags...)
			for _, s := range symbols {
				delete(labels, s.name) // it also has a symbol with a size
			}
			random := rand.New(rand.NewSource(1))
			addresses := make([]uint64, 20_000)
			for i := range addresses {
				s := symbols[random.Intn(len(symbols))]
				addresses[i] = s.addr + uint64(random.Int63n(int64(s.size+s.size/8+1)))
			}
			want := namesAt(symbols, addresses)
			s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, path)
			different, named := 0, 0
			for _, at := range addresses {
				got := s.Frames(o, at, false)
				name := got[len(got)-1].Function
				if got[0].Kind == Unknown || strings.HasSuffix(name, "@plt") {
					name = ""
				} else {
					named++
				}
				if len(want[at]) == 0 && (name == "" || labels[name]) || slices.ContainsFunc(want[at],
					func(n string) bool { return n == name || flags == nil && sameSource(n, name) }) {
					continue
				}
				if different++; different <= 10 {
					t.Logf("%#x is %q, nm says %q", at, name, want[at])
				}
			}
			t.Logf("%d of %d differ from nm, %d have a name", different, len(addresses), named)
			if different*1000 > len(addresses) {
				t.Errorf("%d of %d differ from nm", different, len(addresses))
			}
		})
	}
}

// TestGoNamesMatchTheTools compares a stripped Go program with the output of Go's own tools for the same program before
// it was stripped.
func TestGoNamesMatchTheTools(t *testing.T) {
	dir := t.TempDir()
	source := "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\n" +
		"func main() { fmt.Println(http.ListenAndServe(\"\", nil)) }\n"
	writeFile(t, []byte(source), dir, "main.go")
	writeFile(t, []byte("module example.com/names\n\ngo 1.22\n"), dir, "go.mod")
	build := func(out string, flags ...string) string {
		cmd := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), ".")...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return filepath.Join(dir, out)
	}
	whole, stripped := build("whole"), build("stripped", "-ldflags=-s -w")
	random := rand.New(rand.NewSource(1))
	var functions []nmSymbol
	for line := range strings.Lines(run(t, "", "go", "tool", "nm", "-size", "-type", whole)) {
		// address, size, type, name
		if f := strings.Fields(line); len(f) >= 4 && strings.ToUpper(f[2]) == "T" && f[1] != "0" {
			var size uint64
			fmt.Sscan(f[1], &size)
			functions = append(functions, nmSymbol{parseHex(t, f[0]), size, f[3]})
		}
	}
	var input strings.Builder
	addresses := make([]uint64, 20_000)
	for i := range addresses {
		f := functions[random.Intn(len(functions))]
		addresses[i] = f.addr + uint64(random.Int63n(int64(f.size)))
		fmt.Fprintf(&input, "%#x\n", addresses[i])
	}
	lines := strings.Split(run(t, input.String(), "go", "tool", "addr2line", whole), "\n")
	s, o := New(Options{}), object(t, 1, stripped)
	different := 0
	for i, at := range addresses {
		frames := s.Frames(o, at, false)
		inner, outer := frames[0], frames[len(frames)-1]
		// addr2line reports the function that contains the code, and the innermost line.
		name, line := strings.TrimSuffix(lines[2*i], ".abi0"), lines[2*i+1]
		if strings.ReplaceAll(outer.Function, "·", ".") != strings.ReplaceAll(withoutTypeArguments(name), "·", ".") ||
			fmt.Sprintf("%s:%d", inner.File, inner.Line) != line {
			if different++; different <= 10 {
				t.Logf("%#x is %+v, go tool addr2line says %s %s", at, frames, name, line)
			}
		}
	}
	t.Logf("%d of %d differ from go tool addr2line", different, len(addresses))
	if different*1000 > len(addresses) {
		t.Errorf("%d of %d differ from go tool addr2line", different, len(addresses))
	}
}

func TestWithoutTypeArguments(t *testing.T) {
	for name, want := range map[string]string{
		"main.Map[go.shape.int,go.shape.string]":          "main.Map[...]",
		"main.(*List[go.shape.struct { A [4]int }]).Push": "main.(*List[...]).Push",
		"main.F[...]":                     "main.F[...]",
		"main.plain":                      "main.plain",
		"type:.eq.[8]internal/cpu.option": "type:.eq.[8]internal/cpu.option",
		"_ZNK3fooB5cxx11Ev[.cold]":        "_ZNK3fooB5cxx11Ev[.cold]",
		"slices.SortFunc[go.shape.[]int,go.shape.int].func1": "slices.SortFunc[...].func1",
		"]odd[": "]odd[",
	} {
		if got := withoutTypeArguments(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
