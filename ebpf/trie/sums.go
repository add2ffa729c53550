package trie

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
)

// DefaultMaxFunctions bounds the functions that Sums keep apart: some 300 bytes each, with their names.
const DefaultMaxFunctions = 250_000

// OtherFunctions names those functions that Sums add up as one.
const OtherFunctions = "(other functions)"

// Function is what all samples have of one function in one binary, with all its places.
type Function struct {
	Name   string `json:"name"`
	Binary string `json:"binary"` // path of the file that the code is in; "" for none
	Kind   string `json:"kind"`
	Self   int64  `json:"self"`
	Total  int64  `json:"total"` // a function that calls itself counts once
}

// Sums adds up self and total of functions, without the tree that a Builder makes: its memory is bounded by the number
// of functions, however many different stacks there are. It is not safe for concurrent use.
type Sums struct {
	show   func(name string) string
	match  func(text string) bool // what is searched for; nil for nothing
	most   int
	number map[functionKey]int

	sampleType profile.ValueType
	total      int64
	found      int64
	functions  []Function
	matches    []bool
	last       []uint64 // the sample that had each function last
	sample     uint64
}

// functionKey is what frames of one function have in common.
type functionKey struct{ name, binary string }

// NewSums returns empty Sums of at most most functions: those that come later are one together, OtherFunctions.
// Functions are shown by the names that show returns for theirs, if it is not nil.
func NewSums(show func(name string) string, most int) *Sums {
	return &Sums{show: show, most: most, number: map[functionKey]int{}}
}

// Search makes s find functions whose name, source file or binary has the text, in upper or lower case, or matches
// it as a regular expression. It goes before Add.
func (s *Sums) Search(text string) {
	lower := strings.ToLower(text)
	pattern, err := regexp.Compile("(?i)" + text) // one that is not valid is searched for as it is
	s.match = func(in string) bool {
		return in != "" && (strings.Contains(strings.ToLower(in), lower) || err == nil && pattern.MatchString(in))
	}
}

// Unit returns the unit of values, such as nanoseconds; "" before a profile was added.
func (s *Sums) Unit() string { return s.sampleType.Unit }

// Total returns the sum of the samples' values.
func (s *Sums) Total() int64 { return s.total }

// Found returns the value of the samples that have what is searched for.
func (s *Sums) Found() int64 { return s.found }

// Functions returns the functions of all that was added, in the order in which they came. With a search it returns
// those that are found alone. Builds of a binary, and inlined copies, are one function; its kind is that of the copy
// that was seen first.
func (s *Sums) Functions() (out []Function) {
	for i, f := range s.functions {
		if s.match == nil || s.matches[i] {
			out = append(out, f)
		}
	}
	return out
}

// Add adds the values of a profile's default sample type. All profiles must have the same one.
func (s *Sums) Add(p *profile.Profile) error {
	index, err := p.SampleIndexByName("")
	if err != nil {
		return err
	}
	if s.sampleType, err = sameType(s.sampleType, *p.SampleType[index]); err != nil {
		return err
	}
	one := profileSums{Sums: s, frames: NewBuilder(s.show)}
	known := make(map[*profile.Location][]position, len(p.Location))
	for _, sample := range p.Sample {
		if value := sample.Value[index]; value != 0 {
			one.add(one.frames.stackOf(sample, known), value)
		}
	}
	return nil
}

// sameType returns the type of profiles after one more, or an error if it is of another type.
func sameType(was, is profile.ValueType) (profile.ValueType, error) {
	if was.Type != "" && (is.Type != was.Type || is.Unit != was.Unit) {
		return was, fmt.Errorf("profiles of %s in %s and of %s in %s cannot be added up",
			was.Type, was.Unit, is.Type, is.Unit)
	}
	return is, nil
}

// profileSums adds one profile to Sums. Frames are numbered for it alone.
type profileSums struct {
	*Sums
	frames *Builder
	of     []int  // function by frame
	has    []bool // by frame: it is found
}

// add adds a stack, root first.
func (s *profileSums) add(stack []position, value int64) {
	s.total += value
	s.sample++
	found := false
	for _, p := range stack {
		fn := s.functionOf(p.frame)
		found = found || s.has[p.frame]
		if s.last[fn] != s.sample {
			s.last[fn] = s.sample
			s.functions[fn].Total += value
		}
	}
	if len(stack) > 0 {
		s.functions[s.functionOf(stack[len(stack)-1].frame)].Self += value
	}
	if found {
		s.found += value
	}
}

// functionOf returns the function of a frame.
func (s *profileSums) functionOf(frame uint32) int {
	for at := len(s.of); at <= int(frame); at++ {
		f := &s.frames.frames[at]
		fn := s.function(functionKey{f.name, f.mapping.file}, f.kind)
		has := s.match != nil && (s.match(f.name) || s.match(f.file) || s.match(f.mapping.file))
		s.of, s.has = append(s.of, fn), append(s.has, has)
		s.matches[fn] = s.matches[fn] || has
	}
	return s.of[frame]
}

// function returns the number of a function.
func (s *Sums) function(key functionKey, kind Kind) int {
	fn, ok := s.number[key]
	if ok {
		return fn
	}
	if len(s.functions) >= s.most {
		key, kind = functionKey{name: OtherFunctions}, Small
		if fn, ok = s.number[key]; ok {
			return fn
		}
	}
	fn = len(s.functions)
	s.number[key] = fn
	s.functions = append(s.functions, Function{Name: key.name, Binary: key.binary, Kind: kind.String()})
	s.matches, s.last = append(s.matches, false), append(s.last, 0)
	return fn
}
