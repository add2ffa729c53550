package symbol

import (
	"strings"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
	"github.com/headwater/headwater/flame/demangle"
)

// golang names code from the function table that Go's linker puts in every program, with source lines and inlined
// callers. Only the last read part of the table is in memory.
type golang struct {
	table  *gopclntab.Table
	reader *gopclntab.Reader
}

// newGolang returns nil if file is not a Go program, or if its table is not usable.
func newGolang(file *elffile.File) (*golang, error) {
	if !file.IsGo() {
		return nil, nil
	}
	table, err := gopclntab.Open(file)
	if err != nil {
		return nil, err
	}
	return &golang{table: table, reader: table.NewReader()}, nil
}

// frames implements source. Frames without a source position are better than none, so errors are ignored.
func (g *golang) frames(at uint64) []Frame {
	functions, _ := g.reader.Frames(at)
	frames := make([]Frame, 0, len(functions))
	for _, f := range functions {
		frames = append(frames, Frame{Function: withoutTypeArguments(f.Function), File: f.File,
			StartLine: f.StartLine, Line: f.Line, Kind: Native})
	}
	return frames
}

// golangBytes is the approximate memory of a reader.
const golangBytes = 48 << 10

func (g *golang) bytes() int { return golangBytes }

// len returns the number of functions.
func (g *golang) len() int { return g.table.Len() }

// withoutTypeArguments shortens the name of a generic Go function in the same way as the Go runtime and go tool pprof:
// "main.Map[go.shape.int,go.shape.string]" becomes "main.Map[...]". Names of other languages have no brackets, except
// in C++ and Rust, whose names are mangled.
func withoutTypeArguments(name string) string {
	open := strings.IndexByte(name, '[')
	end := strings.LastIndexByte(name, ']')
	if open <= 0 || end < open || strings.HasPrefix(name, "type:.") || demangle.IsMangled(name) {
		return name
	}
	return name[:open] + "[...]" + name[end+1:]
}
