package trie

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unique"

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
	match   func(text string) bool // what is searched for; nil for nothing
	most    int
	number  map[functionKey]int
	byFrame map[unique.Handle[frame]]summedFrame

	sampleType profile.ValueType
	total      int64
	found      int64
	functions  []Function
	matches    []bool
	active     []bool // by function: it is on the way to a node that is added
	flat       flat   // scratch of Add
}

// functionKey is what frames of one function have in common.
type functionKey struct{ name, binary string }

// NewSums returns empty Sums of at most most functions: those that come later are one together, OtherFunctions.
func NewSums(most int) *Sums {
	return &Sums{most: most, number: map[functionKey]int{}, byFrame: map[unique.Handle[frame]]summedFrame{}}
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
	if s.match == nil {
		return slices.Clone(s.functions)
	}
	for i, f := range s.functions {
		if s.matches[i] {
			out = append(out, f)
		}
	}
	return out
}

// Add adds what is chosen of a Folded. All must have the same sample type. What it returns is the caller's until the
// next call.
func (s *Sums) Add(of *Folded, c Choice) (added Added, err error) {
	if s.sampleType, err = sameType(s.sampleType, of.sampleType); err != nil {
		return added, err
	}
	f := &s.flat
	f.read(of, c)
	if len(s.byFrame) == 0 { // others have most of the same frames
		s.byFrame = make(map[unique.Handle[frame]]summedFrame, len(f.places))
		s.number = make(map[functionKey]int, len(f.places))
	}
	added = Added{Total: f.nodes[0].total, Labels: f.labels}
	s.total += added.Total
	one := foldedSums{Sums: s, flat: f, functions: make([]int, len(f.places)), has: make([]bool, len(f.places))}
	for i := range one.functions {
		one.functions[i] = -1
	}
	for i := 1; i < len(f.nodes); i++ {
		if n := &f.nodes[i]; n.total != 0 || n.self != 0 {
			one.add(uint32(i))
		}
	}
	one.leaveTo(0)
	return added, nil
}

// sameType returns the type of profiles after one more, or an error if it is of another type.
func sameType(was, is profile.ValueType) (profile.ValueType, error) {
	if was.Type != "" && (is.Type != was.Type || is.Unit != was.Unit) {
		return was, fmt.Errorf("profiles of %s in %s and of %s in %s cannot be added up",
			was.Type, was.Unit, is.Type, is.Unit)
	}
	return is, nil
}

// summedFrame is what is known of a frame.
type summedFrame struct {
	function int
	found    bool // it is searched for
}

// foldedSums adds one Folded to Sums, node by node.
type foldedSums struct {
	*Sums
	*flat
	functions []int  // by place; -1: not known yet
	has       []bool // by place: it is found
	way       []onWay
	found     bool // a node on the way is found
}

// onWay is a node on the way to the one that is added last.
type onWay struct {
	node     uint32
	function int  // that it is the outermost one of; -1: of none
	wasFound bool // before it
}

// add adds a node, whose parent is on the way.
func (s *foldedSums) add(at uint32) {
	n := &s.nodes[at]
	s.leaveTo(n.parent)
	fn := s.functionOf(n.place)
	entered := onWay{node: at, function: -1, wasFound: s.found}
	if !s.active[fn] {
		s.active[fn] = true
		s.Sums.functions[fn].Total += n.total
		entered.function = fn
	}
	s.Sums.functions[fn].Self += n.self
	if s.has[n.place] && !s.found {
		s.Sums.found += n.total
		s.found = true
	}
	s.way = append(s.way, entered)
}

// leaveTo leaves the nodes on the way that are below a node.
func (s *foldedSums) leaveTo(node uint32) {
	for len(s.way) > 0 {
		last := s.way[len(s.way)-1]
		if last.node == node {
			return
		}
		if last.function >= 0 {
			s.active[last.function] = false
		}
		s.found = last.wasFound
		s.way = s.way[:len(s.way)-1]
	}
}

// functionOf returns the function of a place.
func (s *foldedSums) functionOf(place uint32) int {
	if fn := s.functions[place]; fn >= 0 {
		return fn
	}
	handle := s.places[place].frame
	known, ok := s.byFrame[handle]
	if !ok {
		f := handle.Value()
		known.function = s.function(functionKey{f.name, f.mapping.file}, f.kind)
		known.found = s.match != nil && (s.match(f.name) || s.match(f.file) || s.match(f.mapping.file))
		s.matches[known.function] = s.matches[known.function] || known.found
		s.byFrame[handle] = known
	}
	s.functions[place], s.has[place] = known.function, known.found
	return known.function
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
	s.matches, s.active = append(s.matches, false), append(s.active, false)
	return fn
}
