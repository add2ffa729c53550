package tree

import (
	"cmp"
	"slices"

	"github.com/google/pprof/profile"
)

// Line is the value of samples at a line of a function. For a caller, it is the line of the call.
type Line struct {
	File  string `json:"file"`
	Line  int64  `json:"line"`  // 0 if unknown
	Self  int64  `json:"self"`  // value of the samples whose leaf is at the line
	Total int64  `json:"total"` // value of the samples with the line in their stack, each counted once
}

// Lines adds up the lines of one function. It is not safe for concurrent use.
type Lines struct {
	function, binary string

	sampleType profile.ValueType
	total      int64
	lines      map[lineKey]*summedLine
	samples    int // number of samples added
}

// summedLine is a line, with the number of the last sample counted in its total.
type summedLine struct {
	Line
	counted int
}

type lineKey struct {
	file string
	line int32
}

// NewLines returns empty Lines of the function with the given shown name in the binary with the given path, or in any
// binary if binary is "".
func NewLines(function, binary string) *Lines {
	return &Lines{function: function, binary: binary, lines: map[lineKey]*summedLine{}}
}

// Unit returns the unit of values, or "" before the first Add.
func (l *Lines) Unit() string { return l.sampleType.Unit }

// Total returns the value of the samples with the function in their stack.
func (l *Lines) Total() int64 { return l.total }

// Lines returns the lines, sorted by file and line number.
func (l *Lines) Lines() []Line {
	out := make([]Line, 0, len(l.lines))
	for _, line := range l.lines {
		out = append(out, line.Line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return out
}

// Add adds the chosen samples of a Folded. All must have the same sample type.
func (l *Lines) Add(of *Folded, c Choice) (added Added, err error) {
	if l.sampleType, err = sameType(l.sampleType, of.sampleType); err != nil {
		return added, err
	}
	return of.walkSamples(c, &lineWalker{Lines: l}), nil
}

// lineWalker adds stacks to Lines.
type lineWalker struct {
	*Lines
	at   []*summedLine // by place; nil for other functions
	path []*summedLine // by depth
}

func (w *lineWalker) begin(t table) {
	w.at = make([]*summedLine, len(t.places))
	for i, p := range t.places {
		w.at[i] = w.lineOf(p.of, p.line)
	}
}

func (w *lineWalker) enter(depth int, at uint32) { w.path = append(w.path[:depth-1], w.at[at]) }

func (w *lineWalker) sample(depth int, value int64) {
	w.samples++
	any := false
	for i, line := range w.path[:depth] {
		if line == nil {
			continue
		}
		any = true
		if line.counted != w.samples {
			line.counted = w.samples
			line.Total += value
		}
		if i == depth-1 {
			line.Self += value
		}
	}
	if any {
		w.total += value
	}
}

// lineOf returns the line of a place, or nil if the place belongs to another function.
func (l *Lines) lineOf(of sharedFrame, at int32) *summedLine {
	f := of.openFrame()
	if f.name != l.function || l.binary != "" && f.mapping.file != l.binary {
		return nil
	}
	key := lineKey{f.file, at}
	line, ok := l.lines[key]
	if !ok {
		line = &summedLine{Line: Line{File: f.file, Line: int64(at)}}
		l.lines[key] = line
	}
	return line
}
