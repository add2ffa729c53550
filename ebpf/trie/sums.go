package trie

import (
	"fmt"
	"regexp"
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
	numbers functionNumbers
	byFrame map[unique.Handle[frame]]summedFrame

	sampleType profile.ValueType
	total      int64
	found      int64
	functions  []summed

	at  []summedPlace // by place; scratch of Add
	way []onWay       // scratch of Add
}

// summed is what is known of a function.
type summed struct {
	first       unique.Handle[frame] // of those of the function
	self, total int64
	found       bool
	active      bool // it is on the way to a node that is added
}

// NewSums returns empty Sums of at most most functions: those that come later are one together, OtherFunctions.
func NewSums(most int) *Sums {
	return &Sums{most: most, byFrame: map[unique.Handle[frame]]summedFrame{}}
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
func (s *Sums) Functions() []Function {
	out := make([]Function, 0, len(s.functions))
	for i := range s.functions {
		if f := &s.functions[i]; s.match == nil || f.found {
			of := f.first.Value()
			out = append(out, Function{of.name, of.mapping.file, of.kind.String(), f.self, f.total})
		}
	}
	return out
}

// Reset empties s, and ends its search. It keeps the memory of functions for those to come.
func (s *Sums) Reset() {
	if len(s.byFrame) > maxKeptFrames {
		*s = *NewSums(s.most)
		return
	}
	s.match, s.sampleType, s.total, s.found = nil, profile.ValueType{}, 0, 0
	s.functions = s.functions[:0]
	clear(s.byFrame)
	s.numbers.clear()
}

// Add adds what is chosen of a Folded. All must have the same sample type.
func (s *Sums) Add(of *Folded, c Choice) (added Added, err error) {
	if s.sampleType, err = sameType(s.sampleType, of.sampleType); err != nil {
		return added, err
	}
	w := sumWalker{Sums: s}
	added = of.walk(c, &w)
	w.leaveTo(0)
	s.total += added.Total
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

// summedPlace is what is known of a place.
type summedPlace struct {
	summedFrame
	known bool
}

// sumWalker adds stacks to Sums.
type sumWalker struct {
	*Sums
	places    []place
	isOnFound bool // a frame on the way is found
}

// onWay is a frame on the way.
type onWay struct {
	function  int
	total     int64 // of the samples there and below
	outermost bool  // of its function
	wasFound  bool  // before it
}

func (w *sumWalker) begin(places []place) {
	w.places, w.way = places, w.way[:0]
	w.at = grown(w.at, len(places))
	clear(w.at)
}

func (w *sumWalker) enter(depth int, at uint32) {
	w.leaveTo(depth - 1)
	of := w.of(at)
	f := &w.functions[of.function]
	w.way = append(w.way, onWay{function: of.function, outermost: !f.active, wasFound: w.isOnFound})
	f.active, w.isOnFound = true, w.isOnFound || of.found
}

func (w *sumWalker) sample(depth int, value int64) {
	w.leaveTo(depth)
	if depth == 0 {
		return
	}
	last := &w.way[depth-1]
	last.total += value
	w.functions[last.function].self += value
	if w.isOnFound {
		w.found += value
	}
}

// leaveTo takes the frames below a depth off the way.
func (w *sumWalker) leaveTo(depth int) {
	for len(w.way) > depth {
		last := w.way[len(w.way)-1]
		w.way = w.way[:len(w.way)-1]
		if len(w.way) > 0 {
			w.way[len(w.way)-1].total += last.total
		}
		if last.outermost {
			f := &w.functions[last.function]
			f.total, f.active = f.total+last.total, false
		}
		w.isOnFound = last.wasFound
	}
}

// of returns what is known of a place.
func (w *sumWalker) of(place uint32) summedFrame {
	if at := w.at[place]; at.known {
		return at.summedFrame
	}
	handle := w.places[place].frame
	known, ok := w.byFrame[handle]
	if !ok {
		known.function = w.function(handle)
		if f := handle.Value(); w.match != nil && (w.match(f.name) || w.match(f.file) || w.match(f.mapping.file)) {
			known.found, w.functions[known.function].found = true, true
		}
		w.byFrame[handle] = known
	}
	w.at[place] = summedPlace{known, true}
	return known
}

// otherFunctions stands for all functions that are too many.
var otherFunctions = unique.Make(frame{name: OtherFunctions, kind: Small})

// function returns the number of a frame's function.
func (s *Sums) function(of unique.Handle[frame]) int {
	slot := s.numbers.slot(functionOf(of), len(s.functions), s.key)
	if *slot == 0 && len(s.functions) >= s.most {
		of = otherFunctions
		slot = s.numbers.slot(functionOf(of), len(s.functions), s.key)
	}
	if *slot == 0 {
		s.functions = append(s.functions, summed{first: of})
		*slot = uint32(len(s.functions))
	}
	return int(*slot - 1)
}

// key returns what a function is found by.
func (s *Sums) key(number uint32) functionKey { return functionOf(s.functions[number].first) }
