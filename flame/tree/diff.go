package tree

import (
	"path"
	"strings"

	"github.com/google/pprof/profile"
)

// Diff describes a comparison of two profiles. The values of a Tree with a Diff are the sums of both profiles; its Base
// columns hold the base's share.
type Diff struct {
	Per string  `json:"per"` // the denominator of values: second, run, cpu, count
	By  float64 `json:"by"`  // values divided by By are per unit of Per

	// Differences are judged by the variance of a value v, which is v * Sample + v * v * Spread.
	BaseSample float64 `json:"base_sample"` // value of one sample, or of the largest if they differ
	NewSample  float64 `json:"new_sample"`
	BaseSpread float64 `json:"base_spread"`
	NewSpread  float64 `json:"new_spread"`

	// Functions holds, by frame, an index into Changes for the frame's function, or -1 if there is none.
	Functions []int   `json:"functions"`
	Changes   []Bound `json:"changes"`
}

// Bound holds a function's own value in both profiles, and bounds of its change.
type Bound struct {
	Base    float64  `json:"base"` // per unit of Diff.Per
	New     float64  `json:"new"`
	Low     float64  `json:"low"`            // bounds of New/Base
	High    *float64 `json:"high,omitempty"` // nil if there is no upper bound
	Certain bool     `json:"certain"`
}

// NewDiff returns a Builder that compares profiles. Functions are the same on both sides if their name and file name
// are the same. All functions of a file without a name are one function. The program named was in the base may be named
// is in the new profiles.
func NewDiff(show func(name string) string, was, is string) *Builder {
	b := NewBuilder(show)
	b.diff, b.ofBase = &Diff{}, make([][2]int64, 1)
	b.was, b.is = was, is
	return b
}

// AddBase adds a profile of the base. It multiplies the values by ratio, as profiles may cover different lengths of
// time.
func (b *Builder) AddBase(p *profile.Profile, ratio float64) error {
	b.base, b.ratio = true, ratio
	defer func() { b.base = false }()
	return b.Add(p)
}

// WithoutName is the name that a comparison shows for all functions of a file without a name: their addresses differ in
// another build.
const WithoutName = "(functions without a name)"

// sameFrame returns the frame in the form that both sides share, if b compares profiles.
func (b *Builder) sameFrame(f frame) frame {
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
		if f.kind == Other && f.name == commOf(b.was) {
			f.name = commOf(b.is)
		}
	}
	return f
}

// commOf returns the kernel's name for a process of a program.
func commOf(program string) string { return program[:min(len(program), 15)] }

// lineOf returns the line of a frame, or 0 in a comparison, as two builds do not share line numbers.
func (b *Builder) lineOf(l *profile.Line) int64 {
	if b.diff != nil {
		return 0
	}
	return l.Line
}
