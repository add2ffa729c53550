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
	match func(text string) bool // what is searched for; nil for nothing
	most  int
	index *index

	sampleType profile.ValueType
	total      int64
	found      int64
	frames     []summedFrame // by their numbers
	functions  []summed      // by their numbers, and those that are too many
	came       []uint32      // numbers of the functions that were added

	at  []uint32 // number of the frame and one, by frame of what is added; 0: not known yet. Scratch of Add
	way []onWay  // scratch of Add
}

// summedFrame is what is known of a frame.
type summedFrame struct {
	function uint32 // that it counts for
	known    bool
	found    bool // it is searched for
}

// summed is what is known of a function.
type summed struct {
	self, total int64
	kind        Kind
	came        bool
	found       bool // a frame of it is searched for
	active      bool // it is on the way to a node that is added
}

// NewSums returns empty Sums of at most most functions: those that come later are one together, OtherFunctions.
func NewSums(most int) *Sums {
	return &Sums{most: most, index: &index{}}
}

// NewSums returns empty Sums that have their frames from b, which takes less memory than two lists of them. Both are
// Reset together.
func (b *Builder) NewSums(most int) *Sums { return &Sums{most: most, index: b.index} }

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
	out := make([]Function, 0, len(s.came))
	for _, number := range s.came {
		if f := &s.functions[number]; s.match == nil || f.found {
			function := Function{Name: OtherFunctions, Kind: f.kind.String(), Self: f.self, Total: f.total}
			if int(number) < s.most {
				of := s.index.functions.values[number].of.Value()
				function.Name, function.Binary = of.name, of.binary.Value()
			}
			out = append(out, function)
		}
	}
	return out
}

// Reset empties s, and ends its search. It keeps the memory of functions for those to come, and the frames.
func (s *Sums) Reset() {
	s.index.shrink()
	s.match, s.sampleType, s.total, s.found = nil, profile.ValueType{}, 0, 0
	clear(s.frames)
	clear(s.functions)
	s.came = s.came[:0]
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

// sumWalker adds stacks to Sums.
type sumWalker struct {
	*Sums
	table     table
	isOnFound bool // a frame on the way is found
}

// onWay is a frame on the way.
type onWay struct {
	function  uint32
	total     int64 // of the samples there and below
	outermost bool  // of its function
	wasFound  bool  // before it
}

func (w *sumWalker) begin(t table) {
	w.table, w.way = t, w.way[:0]
	w.at = grown(w.at, t.frames, 0)
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

// of returns what is known of the frame of a place.
func (w *sumWalker) of(place uint32) *summedFrame {
	at := &w.table.places[place]
	if number := w.at[at.frame]; number != 0 {
		return &w.frames[number-1]
	}
	number := w.index.frame(at.of)
	w.at[at.frame] = number + 1
	for int(number) >= len(w.frames) {
		w.frames = append(w.frames, summedFrame{})
	}
	known := &w.frames[number]
	if !known.known {
		*known = w.frameOf(number, at.of)
	}
	return known
}

// frameOf returns what is known of a frame that was not met before.
func (w *sumWalker) frameOf(number uint32, of sharedFrame) summedFrame {
	function, kind := min(w.index.functionOf[number], uint32(w.most)), of.kind()
	if int(function) == w.most {
		kind = Small
	}
	for int(function) >= len(w.functions) {
		w.functions = append(w.functions, summed{})
	}
	f := &w.functions[function]
	if !f.came {
		f.came, f.kind = true, kind
		w.came = append(w.came, function)
	}
	out := summedFrame{function: function, known: true}
	if w.match == nil {
		return out
	}
	if open := of.open(); w.match(open.name) || w.match(open.file) || w.match(open.mapping.file) {
		out.found, f.found = true, true
	}
	return out
}
