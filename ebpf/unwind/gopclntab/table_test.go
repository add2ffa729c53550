package gopclntab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/integration/testkit"
)

const (
	textStart  = 0x401000
	tableStart = 0x500020
)

// functions is a program of three functions. The values are numbers in base 128, encoded by hand:
// the value starts at -1, so 2 makes it 0; then 32 adds 16, 31 subtracts 16, 0x80 0x02 adds 128.
func functions() []source {
	return []source{
		{"runtime.goexit", 0, []byte{2, 8}, TopFrame | Asm},
		{"main.main", 0x20, []byte{2, 4, 32, 20, 31, 4}, 0},
		{"main.(*T).Big", 0x40, []byte{2, 8, 0x80, 0x02, 0x80, 0x01}, SPWrite},
	}
}

func layouts() map[string]assembler {
	return map[string]assembler{
		"Go 1.2":           {go12, binary.LittleEndian, 8, 1, textStart, false},
		"Go 1.16":          {go116, binary.LittleEndian, 8, 1, textStart, false},
		"Go 1.18":          {go118, binary.LittleEndian, 8, 1, textStart, false},
		"Go 1.20":          {go120, binary.LittleEndian, 8, 1, textStart, false},
		"Go 1.2, 32 bit":   {go12, binary.LittleEndian, 4, 1, textStart, false},
		"Go 1.16, 32 bit":  {go116, binary.LittleEndian, 4, 1, textStart, false},
		"Go 1.20, 32 bit":  {go120, binary.LittleEndian, 4, 1, textStart, false},
		"Go 1.2, s390x":    {go12, binary.BigEndian, 8, 2, textStart, false},
		"Go 1.20, s390x":   {go120, binary.BigEndian, 8, 2, textStart, false},
		"Go 1.20, aarch64": {go120, binary.LittleEndian, 8, 4, textStart, false},
	}
}

type delta struct {
	Start, End uint64
	Delta      int64
}

func deltas(t testing.TB, r *Reader, f *Func) []delta {
	t.Helper()
	var all []delta
	if err := r.SPDeltas(f, func(start, end uint64, d int64) bool {
		all = append(all, delta{start, end, d})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLayouts(t *testing.T) {
	for name, a := range layouts() {
		t.Run(name, func(t *testing.T) {
			const end = 0x4a0
			table := a.table(functions(), end)
			image := &memory{base: tableStart, data: table,
				sections: map[string][2]uint64{".gopclntab": {tableStart, tableStart + uint64(len(table))}}}
			tab, err := Open(image)
			if err != nil {
				t.Fatal(err)
			}
			if tab.Len() != 3 {
				t.Fatalf("%d functions", tab.Len())
			}
			r, q := tab.NewReader(), uint64(a.quantum)
			wantDeltas := [][]delta{
				{{textStart, textStart + 8*q, 0}},
				{{textStart + 0x20, textStart + 0x20 + 4*q, 0}, {textStart + 0x20 + 4*q, textStart + 0x20 + 24*q, 16},
					{textStart + 0x20 + 24*q, textStart + 0x20 + 28*q, 0}},
				{{textStart + 0x40, textStart + 0x40 + 8*q, 0},
					{textStart + 0x40 + 8*q, textStart + 0x40 + 136*q, 128}},
			}
			starts := []uint64{textStart, textStart + 0x20, textStart + 0x40, textStart + end}
			for i, want := range functions() {
				for _, pc := range []uint64{starts[i], starts[i+1] - 1} {
					f, at, ok, err := r.Find(pc)
					if err != nil || !ok || at != i {
						t.Fatalf("Find(%#x) = function %d, %v, %v", pc, at, ok, err)
					}
					checkFunc(t, r, &f, want, &a)
					if f.Entry != starts[i] || f.End != starts[i+1] {
						t.Errorf("%s is at %#x to %#x", want.name, f.Entry, f.End)
					}
					if i == 1 && a.quantum > 1 {
						continue // its ranges require one-byte instructions
					}
					if diff := cmp.Diff(wantDeltas[i], deltas(t, r, &f)); diff != "" {
						t.Error(diff)
					}
				}
			}
			for _, pc := range []uint64{0, textStart - 1, textStart + end, 1<<64 - 1} {
				if _, _, ok, err := r.Find(pc); ok || err != nil {
					t.Errorf("Find(%#x) = %v, %v", pc, ok, err)
				}
			}
		})
	}
}

func checkFunc(t *testing.T, r *Reader, f *Func, want source, a *assembler) {
	t.Helper()
	if name, err := r.Name(f); err != nil || name != want.name {
		t.Errorf("name %q, %v; want %q", name, err, want.name)
	}
	if a.version >= go116 && f.Flags != want.flags || a.version == go12 && f.Flags != 0 ||
		f.HasFlags != (a.version >= go118) {
		t.Errorf("%s: flags %v, %v", want.name, f.Flags, f.HasFlags)
	}
	if !f.HasSPDeltas() {
		t.Errorf("%s: no stack pointer", want.name)
	}
}

// moduleAt is the address of the module data in program.
const moduleAt = 0x600000

// program is a table without the start of the text, and module data.
func program(a assembler) *memory {
	a.noText = true
	table := a.table(functions(), 0x4a0)
	m := &memory{base: tableStart, data: make([]byte, moduleAt-tableStart+moduleWords*8+64)}
	copy(m.data, table)
	namesAt := tableStart + 8 + 8*8
	for i, v := range map[int]uint64{moduleHeader: tableStart, moduleNames: uint64(namesAt), moduleMinPC: textStart,
		moduleMaxPC: textStart + 0x4a0, moduleText: textStart} {
		a.order.PutUint64(m.data[moduleAt-tableStart+8*i:], v)
		m.relative = append(m.relative, [2]uint64{uint64(moduleAt + 8*i), v})
	}
	return m
}

// TestTextStart has a table without the start of the text, as in Go 1.26, and the module data in
// each of the forms that linkers write.
func TestTextStart(t *testing.T) {
	section := [2]uint64{tableStart, tableStart + 0x1000}
	blank := func(m *memory) { clear(m.data[moduleAt-tableStart:]) }
	for name, c := range map[string]struct {
		change func(*memory)
		err    error
	}{
		"section of its own": {func(m *memory) {
			m.sections = map[string][2]uint64{".gopclntab": section, ".go.module": {moduleAt, moduleAt + 0x200}}
			m.relative = nil
		}, nil},
		"somewhere":   {func(m *memory) { m.relative = nil; m.sections = map[string][2]uint64{".gopclntab": section} }, nil},
		"no sections": {func(m *memory) { m.relative = nil }, nil},
		"relocated":   {blank, nil},
		"header relocated": {func(m *memory) { blank(m); m.relative = [][2]uint64{{tableStart + 24, textStart}} },
			nil},
		"nowhere": {func(m *memory) { blank(m); m.relative = nil; m.sections = map[string][2]uint64{".gopclntab": section} },
			ErrTextStart},
		"of another table": {func(m *memory) { m.relative = nil; m.data[moduleAt-tableStart+8*moduleMaxPC]++ },
			ErrNoTable},
		"in no Go program":    {func(m *memory) { m.foreign = true }, ErrNoTable},
		"sections but not it": {func(m *memory) { m.sections = map[string][2]uint64{} }, ErrNoTable},
		"merged by GNU ld": {func(m *memory) {
			m.sections = map[string][2]uint64{".data.rel.ro": {tableStart, tableStart + uint64(len(m.data))}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := program(assembler{version: go120, order: binary.LittleEndian, ptr: 8, quantum: 1, text: textStart})
			c.change(m)
			tab, err := Open(m)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			f, _, ok, err := tab.NewReader().Find(textStart + 0x30)
			if err != nil || !ok || f.Entry != textStart+0x20 {
				t.Errorf("found %+v, %v, %v", f, ok, err)
			}
		})
	}
}

// TestInvalidValues has value tables that contradict the function.
func TestInvalidValues(t *testing.T) {
	for name, values := range map[string][]byte{
		"beyond the function":     {2, 0x21},
		"range of no length":      {2, 0, 32, 8},
		"number without an end":   {2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
		"beyond the function, 32": {2, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		t.Run(name, func(t *testing.T) {
			a := layouts()["Go 1.20"]
			table := a.table([]source{{"main.main", 0, values, 0}}, 0x20)
			tab, err := Open(&memory{base: tableStart, data: table})
			if err != nil {
				t.Fatal(err)
			}
			f, _, _, err := tab.NewReader().Find(textStart)
			if err != nil {
				t.Fatal(err)
			}
			if err := tab.NewReader().SPDeltas(&f,
				func(uint64, uint64, int64) bool { return true }); !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func FuzzTable(f *testing.F) {
	for _, a := range layouts() {
		f.Add(a.table(functions(), 0x4a0), true)
		f.Add(append(make([]byte, 40), a.table(functions(), 0x4a0)...), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, section bool) {
		defer testkit.Cheap(t, len(data))()
		m := &memory{base: tableStart, data: data,
			relative: [][2]uint64{{moduleAt, tableStart}, {tableStart + 24, textStart}}}
		if section {
			m.sections = map[string][2]uint64{".gopclntab": {tableStart, tableStart + uint64(len(data))}}
		}
		tab, err := Open(m)
		if err != nil {
			return
		}
		r := tab.NewReader()
		for i := range min(tab.Len(), 100) {
			fn, err := r.At(i)
			if err != nil {
				continue
			}
			r.Name(&fn)
			last := fn.Entry
			r.SPDeltas(&fn, func(start, end uint64, _ int64) bool {
				if start != last || end <= start || end > fn.End {
					panic(fmt.Sprintf("range %#x to %#x of %+v", start, end, fn))
				}
				last = end
				return true
			})
			r.Find(fn.Entry)
			if frames, err := r.Frames(fn.Entry + 1); err == nil && len(frames) == 0 && fn.Entry+1 < fn.End {
				t.Errorf("no frame in %+v", fn)
			}
		}
	})
}
