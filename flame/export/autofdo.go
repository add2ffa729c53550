package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// sampledFunction is a function of a sample profile, or a function that is inlined.
type sampledFunction struct {
	name    string
	lines   map[int64]int64                       // samples by line, relative to the function's first line
	inlined map[int64]map[string]*sampledFunction // inlined functions by line of the call and name
}

func newSampledFunction(name string) *sampledFunction {
	return &sampledFunction{name: name, lines: map[int64]int64{}, inlined: map[int64]map[string]*sampledFunction{}}
}

// AutoFDO writes a sample profile as text, which clang reads with -fprofile-sample-use: samples by line of native
// functions whose first line is in the debug information. Only the place of a sample counts, not its callers.
func AutoFDO(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	functions := map[string]*sampledFunction{}
	for _, sample := range p.Sample {
		if len(sample.Location) > 0 {
			addSampled(functions, sample.Location[0], s.weight(sample))
		}
	}
	all := slices.SortedFunc(maps.Values(functions), func(a, b *sampledFunction) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.name, b.name))
	})
	out := bufio.NewWriter(w)
	for _, f := range all {
		fmt.Fprintf(out, "%s:%d:%d\n", f.name, f.total(), f.entries()) // Flush reports errors
		f.write(out, 1)
	}
	return out.Flush()
}

// addSampled counts samples at a location, if all its functions are known.
func addSampled(functions map[string]*sampledFunction, l *profile.Location, count int64) {
	if isNoCode(l) || strings.HasPrefix(l.Mapping.File, "[") || len(l.Line) == 0 || count <= 0 {
		return
	}
	for _, line := range l.Line {
		if line.Function == nil || line.Function.StartLine <= 0 || line.Line < line.Function.StartLine ||
			linkerName(line.Function) == "" {
			return
		}
	}
	last := len(l.Line) - 1
	outer := linkerName(l.Line[last].Function)
	f := functions[outer]
	if f == nil {
		f = newSampledFunction(outer)
		functions[outer] = f
	}
	for i := last; ; i-- {
		at := l.Line[i].Line - l.Line[i].Function.StartLine
		if i == 0 {
			f.lines[at] += count
			return
		}
		f = f.callAt(at, linkerName(l.Line[i-1].Function))
	}
}

// linkerName returns the compiler's name of a function, without the suffixes of copies, or "" for a name that no C or
// C++ compiler produces.
func linkerName(f *profile.Function) string {
	name := f.SystemName
	if name == "" {
		name = f.Name
	}
	for _, suffix := range []string{".isra.", ".part.", ".constprop.", ".cold", ".llvm.", ".__uniq."} {
		name, _, _ = strings.Cut(name, suffix)
	}
	if strings.ContainsAny(name, " :\t\r\n") {
		return ""
	}
	return name
}

// callAt returns the function that is inlined at a line, and adds it if it is new.
func (f *sampledFunction) callAt(line int64, name string) *sampledFunction {
	if f.inlined[line] == nil {
		f.inlined[line] = map[string]*sampledFunction{}
	}
	callee := f.inlined[line][name]
	if callee == nil {
		callee = newSampledFunction(name)
		f.inlined[line][name] = callee
	}
	return callee
}

// total returns the number of samples in a function and in the functions inlined into it.
func (f *sampledFunction) total() (sum int64) {
	for _, n := range f.lines {
		sum += n
	}
	for _, callees := range f.inlined {
		for _, callee := range callees {
			sum += callee.total()
		}
	}
	return sum
}

// entries estimates how often a function was entered: as often as its first line was sampled.
func (f *sampledFunction) entries() int64 {
	if len(f.lines) == 0 {
		return 1
	}
	return max(1, f.lines[slices.Min(slices.Collect(maps.Keys(f.lines)))])
}

// write writes the lines of a function: first the lines with samples of their own.
func (f *sampledFunction) write(out io.Writer, depth int) {
	indent := strings.Repeat(" ", depth)
	for _, line := range slices.Sorted(maps.Keys(f.lines)) {
		fmt.Fprintf(out, "%s%d: %d\n", indent, line, f.lines[line])
	}
	for _, line := range slices.Sorted(maps.Keys(f.inlined)) {
		for _, name := range slices.Sorted(maps.Keys(f.inlined[line])) {
			callee := f.inlined[line][name]
			fmt.Fprintf(out, "%s%d: %s:%d\n", indent, line, name, callee.total())
			callee.write(out, depth+1)
		}
	}
}
