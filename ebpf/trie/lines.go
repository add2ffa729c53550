package trie

import (
	"cmp"
	"slices"

	"github.com/google/pprof/profile"
)

// Line is what samples have at a line of a function: of a frame that is a caller, the line of the call.
type Line struct {
	File  string `json:"file"`
	Line  int64  `json:"line"`  // 0 if it is not known
	Self  int64  `json:"self"`  // of samples whose leaf is there
	Total int64  `json:"total"` // of samples that have it in their stack; one that has it twice counts once
}

// Lines adds up the lines of one function. It is not safe for concurrent use.
type Lines struct {
	function, binary string

	sampleType profile.ValueType
	total      int64
	lines      map[lineKey]*summedLine
	samples    int // that were added
}

// summedLine is a line, and which sample was the last that counted in its total.
type summedLine struct {
	Line
	counted int
}

type lineKey struct {
	file string
	line int32
}

// NewLines returns empty Lines of a function, by its name as it is shown, in the binary of that path, or in any if
// that is "".
func NewLines(function, binary string) *Lines {
	return &Lines{function: function, binary: binary, lines: map[lineKey]*summedLine{}}
}

// Unit returns the unit of values; "" before anything was added.
func (l *Lines) Unit() string { return l.sampleType.Unit }

// Total returns the value of the samples with the function.
func (l *Lines) Total() int64 { return l.total }

// Lines returns the lines in their order.
func (l *Lines) Lines() []Line {
	out := make([]Line, 0, len(l.lines))
	for _, line := range l.lines {
		out = append(out, line.Line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return out
}

// Add adds what is chosen of a Folded. All must have the same sample type.
func (l *Lines) Add(of *Folded, c Choice) (added Added, err error) {
	if l.sampleType, err = sameType(l.sampleType, of.sampleType); err != nil {
		return added, err
	}
	return of.walk(c, &lineWalker{Lines: l}), nil
}

// lineWalker adds stacks to Lines.
type lineWalker struct {
	*Lines
	at   []*summedLine // by place; nil: another function
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

// lineOf returns the line of a place, nil if it is of another function.
func (l *Lines) lineOf(of sharedFrame, at int32) *summedLine {
	f := of.open()
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
