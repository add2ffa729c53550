package trie

import (
	"path"
	"strings"

	"github.com/google/pprof/profile"
)

// Diff says how two profiles are compared. The values of a Tree that has one are of both together, and its columns of
// the base say which part is of that.
type Diff struct {
	Per string  `json:"per"` // what values are for: second, run, cpu, count
	By  float64 `json:"by"`  // values divided by it are for each of those

	// What a difference is judged by: the variance of a value v is v * Sample + v * v * Spread.
	BaseSample float64 `json:"base_sample"` // value of one sample, of the largest where they differ
	NewSample  float64 `json:"new_sample"`
	BaseSpread float64 `json:"base_spread"`
	NewSpread  float64 `json:"new_spread"`

	// Functions is by frame what is known for certain of the function itself; -1 is for none.
	Functions []int   `json:"functions"`
	Changes   []Bound `json:"changes"`
}

// Bound is what is known of a function's own value.
type Bound struct {
	Base    float64  `json:"base"` // for each of what Diff.Per says
	New     float64  `json:"new"`
	Low     float64  `json:"low"`            // bounds of New/Base
	High    *float64 `json:"high,omitempty"` // nil: none
	Certain bool     `json:"certain"`
}

// NewDiff returns a Builder that compares: a function is the same on both sides if its name and the name of its file
// are, and those without a name are one for each file. The program was may be called is on the new side.
func NewDiff(show func(name string) string, was, is string) *Builder {
	b := NewBuilder(show)
	b.diff, b.ofBase = &Diff{}, make([][2]int64, 1)
	b.was, b.is = was, is
	return b
}

// AddBase adds a profile of the base. Its values are multiplied by ratio, as profiles may be of unequal time.
func (b *Builder) AddBase(p *profile.Profile, ratio float64) error {
	b.base, b.ratio = true, ratio
	defer func() { b.base = false }()
	return b.Add(p)
}

// WithoutName is what a comparison calls the functions of a file that have no name: their addresses say nothing about
// another build.
const WithoutName = "(functions without a name)"

// same returns the frame as both sides have it, if b compares.
func (b *Builder) same(f frame) frame {
	if b.diff == nil {
		return f
	}
	f.startLine, f.inlined, f.mapping.buildID = 0, false, ""
	f.file = path.Base(f.file)
	f.mapping.file = path.Base(f.mapping.file)
	if f.file == "." {
		f.file = ""
	}
	if f.mapping.file == "." {
		f.mapping.file = ""
	}
	if f.kind == Inlined {
		f.kind = Native
	}
	if f.kind == Unnamed && strings.Contains(f.name, "0x") {
		f.name = WithoutName
	}
	if b.base && b.was != "" {
		if f.mapping.file == b.was {
			f.mapping.file = b.is
		}
		if f.kind == Other && f.name == comm(b.was) {
			f.name = comm(b.is)
		}
	}
	return f
}

// comm is what the kernel calls a process of a program.
func comm(program string) string { return program[:min(len(program), 15)] }

// lineOf returns the line of a frame, which two builds do not share.
func (b *Builder) lineOf(l *profile.Line) int64 {
	if b.diff != nil {
		return 0
	}
	return l.Line
}
