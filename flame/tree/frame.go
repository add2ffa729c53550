package tree

import (
	"cmp"
	"slices"
	"unique"
	"unsafe"

	"github.com/google/pprof/profile"
)

// frame is a function in a stack. Frames that differ in any field are different nodes.
type frame struct {
	name      string
	file      string
	startLine int64
	mapping   mapping
	kind      Kind
	inlined   bool
}

// mapping identifies the file with the code of a frame.
type mapping struct{ file, buildID string }

func mappingOf(l *profile.Location) mapping {
	if l.Mapping == nil {
		return mapping{}
	}
	return mapping{l.Mapping.File, l.Mapping.BuildID}
}

// sharedFrame is an interned frame with interned file names. Equal frames have equal handles.
type sharedFrame struct{ of unique.Handle[frameParts] }

// frameParts are the interned parts of a frame.
type frameParts struct {
	function      sharedFunction
	file, buildID unique.Handle[string]
	startLine     int64
	kind          Kind
	inlined       bool
}

// sharedFunction is an interned function. Equal functions have equal handles.
type sharedFunction struct{ of unique.Handle[function] }

// function is a function as a person understands it: all frames of one name in one binary, inlined or not, of any
// build.
type function struct {
	name   string
	binary unique.Handle[string]
}

func (s sharedFunction) hash() uint32 { return spread(addressOf(s.of)) }

// addressOf returns the address of an interned value, which is the same for equal values and does not change.
func addressOf[T comparable](of unique.Handle[T]) uint64 {
	return uint64(*(*uintptr)(unsafe.Pointer(&of)))
}

// share returns the interned form of f.
func (f *frame) share() sharedFrame { return new(texts).share(f) }

// texts caches the interned strings of the frame that was shared last: most frames of a profile have the same binary,
// file and build ID as the frame before.
type texts struct{ binary, file, buildID lastText }

// share returns the interned form of f.
func (t *texts) share(f *frame) sharedFrame {
	return sharedFrame{unique.Make(frameParts{
		function:  sharedFunction{unique.Make(function{f.name, t.binary.share(f.mapping.file)})},
		file:      t.file.share(f.file),
		buildID:   t.buildID.share(f.mapping.buildID),
		startLine: f.startLine, kind: f.kind, inlined: f.inlined,
	})}
}

type lastText struct {
	text   string
	shared unique.Handle[string] // zero before the first text
}

// share returns the interned form of a text.
func (l *lastText) share(text string) unique.Handle[string] {
	if l.shared == (unique.Handle[string]{}) || text != l.text {
		*l = lastText{text, unique.Make(text)}
	}
	return l.shared
}

// openFrame returns the frame with its strings.
func (s sharedFrame) openFrame() frame {
	p := s.of.Value()
	f := p.function.of.Value()
	return frame{
		name: f.name, file: p.file.Value(), startLine: p.startLine,
		mapping: mapping{f.binary.Value(), p.buildID.Value()}, kind: p.kind, inlined: p.inlined,
	}
}

// order returns a number that orders frames, the same in every profile for as long as the frame is in use.
func (s sharedFrame) order() uint64 { return addressOf(s.of) }

func (s sharedFrame) hash() uint32       { return spread(addressOf(s.of)) }
func (s sharedFrame) function() function { return s.of.Value().function.of.Value() }
func (s sharedFrame) frameName() string  { return s.function().name }
func (s sharedFrame) frameKind() Kind    { return s.of.Value().kind }

// compareFrames orders frames by name, then by all other fields.
func compareFrames(x, y sharedFrame) int {
	if x == y {
		return 0
	}
	if c := cmp.Compare(x.frameName(), y.frameName()); c != 0 { // the usual case
		return c
	}
	f, g := x.openFrame(), y.openFrame()
	inlined := func(f frame) int {
		if f.inlined {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(f.mapping.file, g.mapping.file),
		cmp.Compare(f.mapping.buildID, g.mapping.buildID), cmp.Compare(f.file, g.file),
		cmp.Compare(f.startLine, g.startLine), cmp.Compare(f.kind, g.kind), cmp.Compare(inlined(f), inlined(g)))
}

// index numbers frames and their functions. The zero value is empty.
type index struct {
	frames     numbering[sharedFrame]
	functions  numbering[sharedFunction]
	functionOf []uint32 // by frame
	kindOf     []Kind
}

// maxKeptFrames is the largest number of frames to keep at a Reset: most frames will occur again.
const maxKeptFrames = 100_000

// frame returns the number of a frame, and numbers it if it is new.
func (x *index) frame(of sharedFrame) uint32 {
	number, isNew := x.frames.number(of)
	if isNew {
		function, _ := x.functions.number(of.of.Value().function)
		x.functionOf, x.kindOf = append(x.functionOf, function), append(x.kindOf, of.frameKind())
	}
	return number
}

// growTo makes room for the given number of frames in all.
func (x *index) growTo(frames int) {
	x.frames.growTo(frames)
	x.functions.growTo(frames)
	x.functionOf = slices.Grow(x.functionOf, max(0, frames-len(x.functionOf)))
	x.kindOf = slices.Grow(x.kindOf, max(0, frames-len(x.kindOf)))
}

// frameAt returns the frame with a number.
func (x *index) frameAt(number uint32) sharedFrame { return x.frames.values[number] }

// shrink drops all frames if there are more than maxKeptFrames.
func (x *index) shrink() {
	if len(x.frames.values) > maxKeptFrames {
		*x = index{}
	}
}
