package names

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// nameJudge counts how the names of sampled addresses compare with the tools'.
type nameJudge struct {
	programs named
	vdso     string
	kernel   kernelFunctions
	jit      []rig.Symbol
	tables   map[string][]rig.Symbol // of nm, by file
	entries  map[string][]rig.Symbol // of readelf, by file
	stubs    map[string][]rig.Symbol // of objdump, by file
	kinds    map[string]*nameCount
	odd      []string // differences without an explanation
}

// nameCount counts the addresses of one kind.
type nameCount struct {
	addresses, equal, inlined int
	explained                 map[string]int
}

func newNameJudge(t testing.TB, programs named, jit []rig.Symbol) *nameJudge {
	return &nameJudge{
		programs: programs, vdso: vdsoFile(t), kernel: readKallsyms(t), jit: jit,
		tables: map[string][]rig.Symbol{}, entries: map[string][]rig.Symbol{},
		stubs: map[string][]rig.Symbol{}, kinds: map[string]*nameCount{},
	}
}

func (j *nameJudge) count(kind string) *nameCount {
	c := j.kinds[kind]
	if c == nil {
		c = &nameCount{explained: map[string]int{}}
		j.kinds[kind] = c
	}
	return c
}

// equal counts an address. One whose names differ is odd.
func (j *nameJudge) equal(kind string, ok bool, got []place, want any) {
	c := j.count(kind)
	c.addresses++
	if len(got) > 1 {
		c.inlined++
	}
	if ok {
		c.equal++
		return
	}
	j.odd = append(j.odd, fmt.Sprintf("%s: ours %v, the tool's %v", kind, got, want))
}

// Causes of differences from addr2line, in which another tool sides with us.
const (
	causePlace = "addr2line differs in file, line or inlined calls; elfutils or LLVM has ours"
	causeName  = "addr2line has another name for the same file, line and inlined calls; nm, elfutils or LLVM has ours"
	causeFile  = "no unit of the DWARF data has the address; addr2line takes a file from the symbol table"
	causeMoved = "the perf map has had several functions at the address, one after the other"
)

// judge compares all locations of a profile that have an address.
func (j *nameJudge) judge(t testing.TB, p *profile.Profile) {
	t.Helper()
	files := map[string][]*profile.Location{}
	for _, l := range p.Location {
		if l.Mapping != nil && l.Address != 0 {
			files[l.Mapping.File] = append(files[l.Mapping.File], l)
		}
	}
	for file, locations := range files {
		switch {
		case file == "[kernel.kallsyms]":
			j.kernelNames(locations)
		case file == "[jit]":
			j.jitNames(locations)
		case file == "": // pprof's own mapping for code without one
			j.noNames(locations)
		case file == j.programs.golang, file == j.programs.stripped:
			j.goNames(t, filepath.Base(file), locations)
		default:
			debug := debugFileOf(t, file, locations[0].Mapping.BuildID)
			if debug != "" {
				j.dwarfNames(t, file, debug, locations)
			} else {
				j.symbolNames(t, file, locations)
			}
		}
	}
}

// placesOf are the lines of a location.
func placesOf(l *profile.Location) (places []place) {
	for _, line := range l.Line {
		places = append(places, place{line.Function.Name, line.Function.Filename, int(line.Line)})
	}
	return places
}

func addressesOf(locations []*profile.Location) (addrs []uint64) {
	for _, l := range locations {
		addrs = append(addrs, l.Address)
	}
	return addrs
}

func (j *nameJudge) kernelNames(locations []*profile.Location) {
	for _, l := range locations {
		got, want := placesOf(l), j.kernel.names(l.Address)
		j.equal("kernel", len(got) == 1 && slices.Contains(want, got[0].function), got, want)
	}
}

func (j *nameJudge) jitNames(locations []*profile.Location) {
	for _, l := range locations {
		var want []string
		for _, s := range j.jit {
			if s.Start <= l.Address && l.Address < s.End {
				want = append(want, s.Name)
			}
		}
		got := placesOf(l)
		if len(got) == 1 && slices.Contains(want, got[0].function) && got[0].function != want[len(want)-1] {
			j.count("node's compiled code").addresses++
			j.count("node's compiled code").explained[causeMoved]++
			continue
		}
		j.equal("node's compiled code", len(got) == 1 && slices.Contains(want, got[0].function), got, want)
	}
}

// noNames judges code outside any file that no perf map has.
func (j *nameJudge) noNames(locations []*profile.Location) {
	for _, l := range locations {
		covered := slices.ContainsFunc(j.jit, func(s rig.Symbol) bool { return s.Start <= l.Address && l.Address < s.End })
		got := placesOf(l)
		j.equal("outside any file and perf map", !covered && got[0].function == "[unknown]", got, "a perf map's")
	}
}

// goNames asks go tool addr2line for the function around and the innermost line,
// and LLVM's addr2line for the calls between, of the program with symbols.
func (j *nameJudge) goNames(t testing.TB, kind string, locations []*profile.Location) {
	t.Helper()
	addrs := addressesOf(locations)
	ends, chains := goAddr2line(t, j.programs.golang, addrs), addr2line(t, "llvm-addr2line", j.programs.golang, addrs)
	for i, l := range locations {
		got, want := placesOf(l), chains[i]
		ok := len(got) == len(want)
		for n := 0; ok && n < len(got); n++ {
			generated := got[n].file == "<autogenerated>" && want[n].line == 0
			ok = goName(got[n].function) == goName(want[n].function) &&
				(generated || got[n].line == want[n].line && got[n].file == strings.Replace(want[n].file, "./<", "<", 1))
		}
		ok = ok && goName(got[len(got)-1].function) == ends[i].function && got[0].file == ends[i].file &&
			got[0].line == ends[i].line
		j.equal(kind, ok, got, fmt.Sprint(ends[i], want))
	}
}

// symbolNames asks nm.
func (j *nameJudge) symbolNames(t testing.TB, file string, locations []*profile.Location) {
	t.Helper()
	for _, l := range locations {
		got, want := placesOf(l), j.symbolsAt(t, file, l)
		j.equal("symbols of "+filepath.Base(file), len(got) == 1 && slices.Contains(want, got[0].function), got, want)
	}
}

// symbolsAt returns the names that nm's table allows at a location.
func (j *nameJudge) symbolsAt(t testing.TB, file string, l *profile.Location) []string {
	t.Helper()
	table, ok := j.tables[file]
	if !ok {
		module := file
		if file == "[vdso]" {
			module = j.vdso
		}
		table = rig.SymbolTable(t, module, l.Mapping.BuildID)
		j.tables[file], j.entries[file] = table, rig.FrameEntries(t, module)
	}
	if stubs := j.stubsAt(t, file, l); len(stubs) > 0 {
		return stubs
	}
	names, _ := rig.SymbolLabels(table, j.entries[file], file, l.Address)
	return names
}

// stubsAt returns objdump's names of the stub of the procedure linkage table at a location, or none outside the table.
func (j *nameJudge) stubsAt(t testing.TB, file string, l *profile.Location) (names []string) {
	t.Helper()
	stubs, ok := j.stubs[file]
	if !ok && file != "[vdso]" {
		stubs = readStubs(t, file, j.tables[file])
	}
	j.stubs[file] = stubs
	for _, s := range stubs {
		if s.Start <= l.Address && l.Address < s.End {
			names = append(names, s.Name)
		}
	}
	return names
}

// dwarfNames asks addr2line and, where it differs, elfutils, LLVM and nm.
func (j *nameJudge) dwarfNames(t testing.TB, file, debug string, locations []*profile.Location) {
	t.Helper()
	kind, addrs := "DWARF of "+filepath.Base(file), addressesOf(locations)
	want := addr2line(t, "addr2line", debug, addrs)
	var odd []*profile.Location
	var theirs [][]place
	for i, l := range locations {
		got := placesOf(l)
		if slices.Equal(got, want[i]) {
			j.equal(kind, true, got, nil)
			continue
		}
		odd, theirs = append(odd, l), append(theirs, want[i])
	}
	if len(odd) == 0 {
		return
	}
	others := [][][]place{addr2line(t, "eu-addr2line", debug, addressesOf(odd)),
		addr2line(t, "llvm-addr2line", debug, addressesOf(odd))}
	for i, l := range odd {
		got := placesOf(l)
		cause := j.causeOf(t, file, l, got, theirs[i], others[0][i], others[1][i])
		if cause == "" {
			j.equal(kind, false, got, fmt.Sprintf("%v, elfutils' %v, LLVM's %v at %#x",
				theirs[i], others[0][i], others[1][i], l.Address))
			continue
		}
		c := j.count(kind)
		c.addresses++
		c.explained[cause]++
		if len(got) > 1 {
			c.inlined++
		}
	}
}

// causeOf returns the explanation of a difference from addr2line, "" without one.
func (j *nameJudge) causeOf(t testing.TB, file string, l *profile.Location, got, want, elfutils, llvm []place) string {
	t.Helper()
	symbols := j.symbolsAt(t, file, l)
	// Each name must be what some tool says of the same call, the last one nm's at least.
	for i := range got {
		known := i == len(got)-1 && slices.Contains(symbols, got[i].function)
		for _, theirs := range [][]place{want, elfutils, llvm} {
			known = known || len(theirs) == len(got) && theirs[i].function == got[i].function
		}
		if !known {
			return ""
		}
	}
	noUnit := []place{{}}
	switch {
	case samePlaces(got, want):
		return causeName
	case samePlaces(got, noUnit) && samePlaces(elfutils, noUnit):
		return causeFile
	case samePlaces(got, elfutils), samePlaces(got, llvm):
		return causePlace
	}
	return ""
}

// report shows the counts, returns their sums, and demands that 99.9 % are equal or explained.
func (j *nameJudge) report(t testing.TB) map[string]int {
	t.Helper()
	addresses, equal, explained, inlined := 0, 0, 0, 0
	for _, kind := range slices.Sorted(maps.Keys(j.kinds)) {
		c := j.kinds[kind]
		t.Logf("%-28s %5d addresses, %5d equal, %4d with inlined calls, explained: %v",
			kind, c.addresses, c.equal, c.inlined, c.explained)
		addresses, equal, inlined = addresses+c.addresses, equal+c.equal, inlined+c.inlined
		for _, n := range c.explained {
			explained += n
		}
	}
	t.Logf("%d addresses, %d equal, %d explained, %d not", addresses, equal, explained, len(j.odd))
	for _, text := range j.odd[:min(len(j.odd), 10)] {
		t.Log(text)
	}
	if len(j.odd)*1000 > addresses {
		t.Errorf("%d of %d addresses differ without explanation", len(j.odd), addresses)
	}
	if addresses < 500 || inlined < 100 {
		t.Errorf("only %d addresses, %d with inlined calls", addresses, inlined)
	}
	for _, kind := range []string{"kernel", "node's compiled code", "hwgolang", "hwstripped", "DWARF of hwplain",
		"DWARF of hwtemplates", "DWARF of hwgeneric", "symbols of fio"} {
		if j.kinds[kind] == nil {
			t.Errorf("no address of %s was sampled", kind)
		}
	}
	return map[string]int{"addresses": addresses, "equal": equal, "explained": explained, "unexplained": len(j.odd),
		"inlined": inlined}
}
