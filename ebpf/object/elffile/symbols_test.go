package elffile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readelfFunctions lists readelf's functions of both symbol tables, .symtab first.
func readelfFunctions(t *testing.T, path string) []string {
	t.Helper()
	tables := map[string][]string{}
	table := ""
	for line := range strings.Lines(run(t, "readelf", "-sW", path)) {
		if strings.HasPrefix(line, "Symbol table '") {
			table = strings.Split(line, "'")[1]
			continue
		}
		f := strings.Fields(line)
		if len(f) < 8 || (f[3] != "FUNC" && f[3] != "IFUNC") || f[6] == "UND" {
			continue
		}
		name, _, _ := strings.Cut(f[7], "@")
		tables[table] = append(tables[table], fmt.Sprintf("%s %s %s %s", f[1], f[3], f[4], name))
	}
	return append(tables[".symtab"], tables[".dynsym"]...)
}

func TestSymbolsMatchReadelf(t *testing.T) {
	paths := []string{libc(t), compile(t, helloProgram), compile(t, helloProgram, "-static"),
		onlyKeepDebug(t, compile(t, helloProgram, "-static"))}
	if more, _ := filepath.Glob("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"); more != nil {
		paths = append(paths, more[0])
	}
	for _, path := range paths {
		symbols, err := open(t, path).Symbols()
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got []string
		for _, s := range symbols {
			if s.Type == elf.STT_NOTYPE {
				continue
			}
			name, _, _ := strings.Cut(s.Name, "@")
			typ := map[elf.SymType]string{elf.STT_FUNC: "FUNC", elf.STT_GNU_IFUNC: "IFUNC"}[s.Type]
			bind := map[elf.SymBind]string{elf.STB_LOCAL: "LOCAL", elf.STB_GLOBAL: "GLOBAL", elf.STB_WEAK: "WEAK",
				elf.STB_LOOS: "UNIQUE"}[s.Bind]
			got = append(got, fmt.Sprintf("%016x %s %s %s", s.Value, typ, bind, name))
		}
		want := readelfFunctions(t, path)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %d functions, readelf shows %d; first difference: %s", path, len(got), len(want),
				firstDifference(got, want))
		}
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("%q, want %q", got[i], want[i])
		}
	}
	return "one is longer"
}

func TestAssemblyLabels(t *testing.T) {
	f := open(t, compile(t, `
		int main(void) { return 0; }
		__asm__(".text\n.globl bare\nbare: nop\n.L_hidden: nop\nret\n.data\nnot_code: .long 1\n.text");
	`))
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]elf.SymType{}
	for _, s := range symbols {
		names[s.Name] = s.Type
	}
	if typ, ok := names["bare"]; !ok || typ != elf.STT_NOTYPE {
		t.Errorf("bare: %v, %v; want an untyped symbol", typ, ok)
	}
	for _, name := range []string{"not_code", ".L_hidden", "_end", "__bss_start", "_edata", "data_start"} {
		if _, ok := names[name]; ok {
			t.Errorf("%s is no code", name)
		}
	}
}

// One unreadable table must not hide the other.
func TestBrokenSymtabKeepsDynsym(t *testing.T) {
	path := compile(t, helloProgram, "-rdynamic")
	f := open(t, path)
	want, err := f.Symbols()
	if err != nil || len(want) == 0 {
		t.Fatal(err)
	}
	f.elf.SectionByType(elf.SHT_SYMTAB).Size = 1 << 40
	got, err := f.Symbols()
	if !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v, want ErrTruncated", err)
	}
	if !slices.ContainsFunc(got, func(s Symbol) bool { return s.Name == "main" }) {
		t.Errorf("main is not among the %d symbols left", len(got))
	}
}

// A header that claims 4 GiB must not cost 4 GiB of memory, neither past the file's end nor in a
// sparse file of that length.
func TestHugeSectionHeaders(t *testing.T) {
	data, err := os.ReadFile(compile(t, helloProgram))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	const shSize, entry = 32, 64
	shoff := int(uint64(data[40]) | uint64(data[41])<<8 | uint64(data[42])<<16)
	for i := range parsed.Sections {
		huge := bytes.Clone(data)
		copy(huge[shoff+i*entry+shSize:], []byte{0, 0, 0, 0, 1, 0, 0, 0})
		for _, r := range []interface {
			ReadAt([]byte, int64) (int, error)
			Size() int64
		}{bytes.NewReader(huge), sparse{huge}} {
			allocated := testing.AllocsPerRun(1, func() {
				f, err := New(r)
				if err == nil {
					exercise(f)
				}
			})
			if allocated > 20_000 {
				t.Errorf("section %d: %v allocations", i, allocated)
			}
			if bytesUsed := allocatedBytes(func() {
				if f, err := New(r); err == nil {
					exercise(f)
				}
			}); bytesUsed > 64<<20 {
				t.Errorf("section %s (%d) of 4 GiB: %d MiB allocated", parsed.Sections[i].Name, i, bytesUsed>>20)
			}
		}
	}
}

// sparse is a file that continues with zeros.
type sparse struct{ head []byte }

func (s sparse) Size() int64 { return 16 << 30 }

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	return len(p), nil
}
