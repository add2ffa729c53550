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
	lines      map[lineKey]*Line
	flat       flat // scratch of Add
}

type lineKey struct {
	file string
	line int64
}

// NewLines returns empty Lines of a function, by its name as it is shown, in the binary of that path, or in any if
// that is "".
func NewLines(function, binary string) *Lines {
	return &Lines{function: function, binary: binary, lines: map[lineKey]*Line{}}
}

// Unit returns the unit of values; "" before anything was added.
func (l *Lines) Unit() string { return l.sampleType.Unit }

// Total returns the value of the samples with the function.
func (l *Lines) Total() int64 { return l.total }

// Lines returns the lines in their order.
func (l *Lines) Lines() []Line {
	out := make([]Line, 0, len(l.lines))
	for _, line := range l.lines {
		out = append(out, *line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return out
}

// Add adds what is chosen of a Folded. All must have the same sample type. What it returns is the caller's until the
// next call.
func (l *Lines) Add(of *Folded, c Choice) (added Added, err error) {
	if l.sampleType, err = sameType(l.sampleType, of.sampleType); err != nil {
		return added, err
	}
	f := &l.flat
	f.read(of, c)
	at := make([]*Line, len(f.places)) // nil: another function
	for i := range f.places {
		at[i] = l.lineOf(&f.places[i])
	}
	for i := 1; i < len(f.nodes); i++ {
		n := &f.nodes[i]
		line := at[n.place]
		if line == nil || n.total == 0 {
			continue
		}
		line.Self += n.self
		sameLine, sameFunction := false, false
		for up := n.parent; up != 0 && !sameLine; up = f.nodes[up].parent {
			caller := at[f.nodes[up].place]
			sameLine, sameFunction = caller == line, sameFunction || caller != nil
		}
		if !sameLine {
			line.Total += n.total
		}
		if !sameFunction && !sameLine {
			l.total += n.total
		}
	}
	return Added{Total: f.nodes[0].total, Labels: f.labels}, nil
}

// lineOf returns the line of a place, nil if it is of another function.
func (l *Lines) lineOf(p *place) *Line {
	f := p.frame.Value()
	if f.name != l.function || l.binary != "" && f.mapping.file != l.binary {
		return nil
	}
	key := lineKey{f.file, p.line}
	line, ok := l.lines[key]
	if !ok {
		line = &Line{File: f.file, Line: p.line}
		l.lines[key] = line
	}
	return line
}
