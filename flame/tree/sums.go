package tree

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
)

// DefaultMaxFunctions is the default number of functions that Sums list separately. Each takes some 300 bytes with its
// name.
const DefaultMaxFunctions = 250_000

// OtherFunctions is the name of the sum of all functions past the maximum of Sums.
const OtherFunctions = "(other functions)"

// Function is the sum of all samples for one function in one binary, at any line.
type Function struct {
	Name   string `json:"name"`
	Binary string `json:"binary"` // path of the file with the code, "" if none
	Kind   string `json:"kind"`
	Self   int64  `json:"self"`
	Total  int64  `json:"total"` // a recursive function counts once
}

// Sums adds up self and total of functions, without the tree that a Builder makes: its memory is bounded by the number
// of functions, however many different stacks there are. It is not safe for concurrent use.
type Sums struct {
	match func(text string) bool // the search; nil if none
	most  int
	index *index

	sampleType profile.ValueType
	total      int64
	found      int64
	frames     []summedFrame // by frame number
	functions  []summed      // by function number; at index most the sum of all further functions
	came       []uint32      // numbers of the functions, in the order of their first sample

	at  []uint32 // frame number plus 1, by frame of the Folded being added; 0 if not known yet. Scratch of Add
	way []onWay  // scratch of Add
}

// summedFrame holds what Sums need for a frame.
type summedFrame struct {
	function uint32 // the function that the frame counts for
	known    bool
	found    bool // it matches the search
}

// summed is the sum for one function.
type summed struct {
	self, total int64
	kind        Kind
	came        bool
	found       bool // a frame of it matches the search
	active      bool // it is on the current path
}

// NewSums returns empty Sums of at most most functions. Further functions are added up as OtherFunctions.
func NewSums(most int) *Sums {
	return &Sums{most: most, index: &index{}}
}

// NewSums returns empty Sums that share the frames of b, which saves the memory of a second list. b and the Sums must
// be Reset together.
func (b *Builder) NewSums(most int) *Sums { return &Sums{most: most, index: b.index} }

// Search limits s to functions whose name, source file or binary contains the text, ignoring case, or matches it as a
// regular expression. It must be called before Add.
func (s *Sums) Search(text string) {
	lower := strings.ToLower(text)
	pattern, err := regexp.Compile("(?i)" + text) // an invalid pattern is searched for literally
	s.match = func(in string) bool {
		return in != "" && (strings.Contains(strings.ToLower(in), lower) || err == nil && pattern.MatchString(in))
	}
}

// Unit returns the unit of values, such as nanoseconds, or "" before the first Add.
func (s *Sums) Unit() string { return s.sampleType.Unit }

// Total returns the sum of the samples' values.
func (s *Sums) Total() int64 { return s.total }

// Found returns the value of the samples with a frame that matches the search.
func (s *Sums) Found() int64 { return s.found }

// Functions returns the functions of the added profiles, in the order in which they first occurred. With a search it
// returns only matching functions. Builds of a binary, and inlined copies, are one function; its kind is the kind of
// the first copy seen.
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

// Reset empties s, and ends its search. It keeps the frames, and the memory of functions for reuse.
func (s *Sums) Reset() {
	s.index.shrink()
	s.match, s.sampleType, s.total, s.found = nil, profile.ValueType{}, 0, 0
	clear(s.frames)
	clear(s.functions)
	s.came = s.came[:0]
}

// Add adds the chosen samples of a Folded. All must have the same sample type.
func (s *Sums) Add(of *Folded, c Choice) (added Added, err error) {
	if s.sampleType, err = sameType(s.sampleType, of.sampleType); err != nil {
		return added, err
	}
	w := sumWalker{Sums: s}
	added = of.walkSamples(c, &w)
	w.leaveTo(0)
	s.total += added.Total
	return added, nil
}

// sameType returns the common sample type of the profiles so far and one more profile, or an error if the types differ.
// was is empty before the first profile.
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
	isOnFound bool // a frame on the current path matches the search
}

// onWay is a frame on the current path.
type onWay struct {
	function  uint32
	total     int64 // value of the samples at the frame and below
	outermost bool  // it is the outermost frame of its function
	wasFound  bool  // isOnFound above this frame
}

func (w *sumWalker) begin(t table) {
	w.table, w.way = t, w.way[:0]
	w.at = grown(w.at, t.frames, 0)
	clear(w.at)
}

func (w *sumWalker) enter(depth int, at uint32) {
	w.leaveTo(depth - 1)
	of := w.sumOf(at)
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

// leaveTo removes the frames below a depth from the current path.
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

// sumOf returns the summedFrame of a place.
func (w *sumWalker) sumOf(place uint32) *summedFrame {
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

// frameOf returns the summedFrame of a new frame, and counts its function as seen.
func (w *sumWalker) frameOf(number uint32, of sharedFrame) summedFrame {
	function, kind := min(w.index.functionOf[number], uint32(w.most)), of.frameKind()
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
	if open := of.openFrame(); w.match(open.name) || w.match(open.file) || w.match(open.mapping.file) {
		out.found, f.found = true, true
	}
	return out
}
