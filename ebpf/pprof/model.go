// Package pprof makes pprof profiles of stacks, whole ones, with valid strings, and each
// with a time of its own. What a receiver does not take whole is for whoever sends to it,
// see package component/pyroscope/limits.
//
// The format is that of github.com/google/pprof/proto/profile.proto.
package pprof

// Mapping is a range of a file as it is linked: the addresses of its Locations
// are ELF virtual addresses of the file, not addresses in a process.
type Mapping struct {
	File    string
	BuildID string // GNU build ID in hex; any other form is left out
	Start   uint64 // first address
	Limit   uint64 // address after the last one
	Offset  uint64 // of Start in the file
}

// Line is one function at a location. A location has several where functions are
// inlined: the innermost first, the function that the code lies in last.
type Line struct {
	Function   string // as it is shown
	SystemName string // as the linker knows it; "" if the same
	File       string
	StartLine  int64 // of the function's declaration; 0 if unknown
	Line       int64
}

// Location is an instruction of a stack. It must not change once it was added
// to a Builder.
type Location struct {
	Mapping *Mapping // nil for frames that are no code, such as a process's name
	Address uint64   // ELF virtual address
	Lines   []Line   // Pyroscope shows locations without lines only with server-side symbols
}

// Timestamp is the label of the times when the parts of a sample were taken: numbers, one for
// each period of its value, in nanoseconds since 1970, without a unit.
const Timestamp = "timestamp"

// Largest is the label of the largest value that a sample of a stack had, in the unit of the first value of its kind. A
// Builder with Options.Count writes it where samples have values of their own and a stack has several.
const Largest = "largest"

// Label is a label of a sample. In Pyroscope each set of text labels becomes a
// series of its own; numbers are ignored there.
type Label struct {
	Key     string
	Text    string
	Number  int64  // used if Text is empty
	NumUnit string // of Number, may be empty
}
