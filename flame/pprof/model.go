// Package pprof makes pprof profiles with whole stacks and valid strings, each with a unique time. Limits of receivers
// are up to the senders, see package component/pyroscope/limits.
//
// The format is the protobuf format of github.com/google/pprof/proto/profile.proto.
package pprof

// Mapping is a range of a file as linked: the addresses of its Locations are ELF virtual addresses of the file, not
// addresses in a process.
type Mapping struct {
	File    string
	BuildID string // GNU build ID in hex; any other form is left out
	Start   uint64 // first address
	Limit   uint64 // address after the last one
	Offset  uint64 // offset of Start in the file
}

// Line is one function at a location. A location with inlined functions has several: the innermost first, the function
// with the code last.
type Line struct {
	Function   string // name to show
	SystemName string // name for the linker; "" if the same
	File       string
	StartLine  int64 // line of the function's declaration; 0 if unknown
	Line       int64
}

// Location is an instruction of a stack. It must not change after it was added to a Builder.
type Location struct {
	Mapping *Mapping // nil for frames that are no code, such as a process's name
	Address uint64   // ELF virtual address
	Lines   []Line   // without lines, Pyroscope needs server-side symbols
}

// Timestamp is the label of the times of the samples taken: one number for each period of the value, in nanoseconds
// since 1970, without a unit.
const Timestamp = "timestamp"

// Largest is the label of the largest value of a sample of a stack, in the unit of the first value of its kind. A
// Builder with Options.Count writes it for stacks of several samples with different values.
const Largest = "largest"

// Label is a label of a sample. In Pyroscope each set of text labels becomes a separate series; numbers are ignored.
type Label struct {
	Key     string
	Text    string
	Number  int64  // used if Text is empty
	NumUnit string // unit of Number, may be empty
}
