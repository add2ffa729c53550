package dwarfline

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// symbolNames are the functions of a file's symbol table, by address.
type symbolNames []elffile.Symbol

func readSymbols(t testing.TB, file string) symbolNames {
	t.Helper()
	f, err := elffile.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	slices.SortFunc(symbols, func(a, b elffile.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return symbols
}

// names reports whether the symbol table has that name at or near an address.
func (s symbolNames) names(addr uint64, name string) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].Value > addr })
	for i--; i >= 0 && addr-s[i].Value < 1<<20; i-- {
		if s[i].Name == name && (s[i].Size == 0 || addr-s[i].Value < s[i].Size) {
			return true
		}
	}
	return false
}

// comparison counts the differences between the frames of a file and addr2line's.
type comparison struct {
	addresses, equal int
	explained        map[string]int
	unexplained      []string
}

// compare looks up addresses of a file and compares the frames with addr2line's for twin. twin is
// the same file, or a file with the same code whose DWARF data addr2line can read.
//
// The function that contains an address, the last frame, is compared with a symbolizer's result: if
// the DWARF data has no linkage name, the name in the symbol table is used, if there is one.
func compare(t testing.TB, file, twin string, addrs []uint64) *comparison {
	t.Helper()
	want := addr2line(t, "addr2line", twin, addrs)
	d, symbols := open(t, file), readSymbols(t, file)
	c := &comparison{addresses: len(addrs), explained: map[string]int{}}
	var odd []int
	got := make([][]Frame, len(addrs))
	for i, addr := range addrs {
		frames, err := d.Frames(addr)
		if err != nil {
			t.Errorf("%s: %#x: %v", file, addr, err)
		}
		got[i] = asSymbolized(frames, want[i], addr, symbols)
		if slices.Equal(asPrinted(got[i]), want[i]) {
			c.equal++
		} else {
			odd = append(odd, i)
		}
	}
	c.explain(t, twin, d, odd, addrs, got, want)
	t.Logf("%s: %d addresses, %d equal, explained: %v, unexplained: %d", file, c.addresses, c.equal, c.explained,
		len(c.unexplained))
	for _, text := range c.unexplained[:min(len(c.unexplained), 8)] {
		t.Log(text)
	}
	return c
}

// check requires that 99.9 % of the addresses are equal or explained.
func (c *comparison) check(t testing.TB) {
	t.Helper()
	if len(c.unexplained)*1000 > c.addresses {
		t.Errorf("%d of %d addresses differ without explanation", len(c.unexplained), c.addresses)
	}
}

// asSymbolized sets the name of the last frame to the symbol's name if addr2line does so and there
// is no linkage name.
func asSymbolized(frames, want []Frame, addr uint64, symbols symbolNames) []Frame {
	if len(frames) == 0 {
		frames = []Frame{{}}
	}
	frames = slices.Clone(frames)
	last := &frames[len(frames)-1]
	if theirs := want[len(want)-1].Function; !last.Linkage && symbols.names(addr, theirs) {
		last.Function = theirs
	}
	return frames
}

// asPrinted returns the form in which addr2line prints frames.
func asPrinted(frames []Frame) []Frame {
	out := slices.Clone(frames)
	for i := range out {
		out[i].Linkage, out[i].StartLine = false, 0
	}
	return out
}

// secondOpinions are the tools of elfutils and LLVM. The first one finds only units with
// .debug_aranges, which clang and Go leave out.
var secondOpinions = []string{"eu-addr2line", "llvm-addr2line"}

// explain assigns a cause to each difference if one of the other tools agrees.
func (c *comparison) explain(t testing.TB, file string, d *Data, odd []int, addrs []uint64, got, want [][]Frame) {
	t.Helper()
	if len(odd) == 0 {
		return
	}
	var oddAddrs []uint64
	for _, i := range odd {
		oddAddrs = append(oddAddrs, addrs[i])
	}
	var others [][][]Frame
	for _, tool := range secondOpinions {
		others = append(others, addr2line(t, tool, file, oddAddrs))
	}
	for n, i := range odd {
		agreed := samePlaces(got[i], others[0][n]) || samePlaces(got[i], others[1][n])
		cause := causeOf(d, addrs[i], got[i], want[i], agreed)
		if cause != "" {
			if c.explained[cause]++; c.explained[cause] == 1 {
				t.Logf("%s, for example %s", cause, difference(addrs[i], got[i], want[i], others[0][n], others[1][n]))
			}
			continue
		}
		c.unexplained = append(c.unexplained, difference(addrs[i], got[i], want[i], others[0][n], others[1][n]))
	}
}

func difference(addr uint64, got, want, elfutils, llvm []Frame) string {
	return fmt.Sprintf("%#x\n      ours: %s\n addr2line: %s\n  elfutils: %s\n      LLVM: %s", addr, text(got),
		text(want), text(elfutils), text(llvm))
}

func text(frames []Frame) string {
	var parts []string
	for _, f := range frames {
		parts = append(parts, fmt.Sprintf("%s at %s:%d", f.Function, f.File, f.Line))
	}
	return strings.Join(parts, " < ")
}

// Causes of differences: errors in BFD of binutils 2.40.
const (
	causeFile0   = "addr2line takes file 0 where the line program of DWARF 5 begins with file 1"
	causeName    = "addr2line gives an inlined function the name of the symbol around it"
	causeSymbol  = "no unit covers the address; addr2line takes the file of the symbol table"
	causeInlined = "addr2line leaves out inlined calls, another tool has ours"
	causeLine    = "addr2line has no line, or another, another tool has ours"
	causeAlias   = "several functions have the same range"
)

func causeOf(d *Data, addr uint64, got, want []Frame, agreed bool) string {
	got = asPrinted(got)
	if len(got) == len(want) {
		other := slices.Clone(want)
		other[0].File = got[0].File
		if slices.Equal(got, other) && d.beginsWithFile1(addr, want[0].File) {
			return causeFile0
		}
		other = slices.Clone(want)
		other[0].Function = got[0].Function
		if slices.Equal(got, other) && len(got) > 1 && agreed {
			return causeName
		}
		if agreed && samePlaces(got, want) && len(got) == 1 {
			return causeAlias
		}
	}
	switch {
	case !agreed:
		return ""
	case len(got) == 1 && got[0].File == "":
		return causeSymbol
	case len(got) > len(want):
		return causeInlined
	case !samePlaces(got, want):
		return causeLine
	}
	return ""
}

// samePlaces compares files and lines of frames.
func samePlaces(a, b []Frame) bool {
	return slices.EqualFunc(a, b, func(a, b Frame) bool {
		ours, theirs := path.Clean(a.File), path.Clean(b.File)
		return a.Line == b.Line && (ours == theirs || strings.HasSuffix(ours, "/"+theirs))
	})
}

// beginsWithFile1 reports whether the row of an address has file 1 of a DWARF 5 table, and other is
// file 0.
func (d *Data) beginsWithFile1(addr uint64, other string) bool {
	w := &work{left: MaxWork}
	number, ok := d.unitNumber(addr)
	if !ok {
		return false
	}
	h, err := d.hitUnitAt(d.main.units[number], w)
	if err != nil || h == nil || h.lines == nil || h.lines.version < 5 {
		return false
	}
	r, ok, err := h.lines.rowAt(addr, w)
	name, nameErr := h.lines.fileName(0, d.supplementary)
	return ok && err == nil && nameErr == nil && r.file == 1 && name == other
}
