package tree

import (
	"fmt"
	"strconv"
)

// part limits a Builder to stacks with a function: to their part from the outermost call of the function on or, with
// callers, to their part up to that call, innermost first.
type part struct {
	function, binary string
	callers          bool
}

// NewCallees returns a Builder of the callees of a function: of each stack with the function, it adds the part from the
// outermost call of the function on. The function is identified by its shown name and, unless binary is "", by the path
// of its binary.
func NewCallees(show func(name string) string, function, binary string) *Builder {
	b := NewBuilder(show)
	b.part = &part{function, binary, false}
	return b
}

// NewCallers returns a Builder of the callers of a function: of each stack with the function, it adds the part up to
// the outermost call of the function, innermost first. The function is the first node, and its callers are below it.
func NewCallers(show func(name string) string, function, binary string) *Builder {
	b := NewBuilder(show)
	b.part = &part{function, binary, true}
	return b
}

// isPartOf reports whether a frame belongs to the function.
func (p *part) isPartOf(of sharedFrame) bool {
	f := of.function()
	return f.name == p.function && (p.binary == "" || f.binary.Value() == p.binary)
}

// bounds returns the start and end of the part in a stack, root first. call is the index of the function's outermost
// call, stack the length of the stack.
func (p *part) bounds(call, stack int) (from, to int) {
	if p.callers {
		return 0, call + 1
	}
	return call, stack
}

// partWalker adds stacks, or the part of each stack that the Builder wants, to a Builder. It numbers only the frames
// that it adds.
type partWalker struct {
	*Builder
	table   table
	numbers []uint32 // the Builder's frame number plus 1, by frame of the table; 0 if not known yet
	path    []uint32 // places, by depth
	call    int      // depth of the function's outermost call on the path, 0 if none
}

func (w *partWalker) begin(t table) { w.table, w.numbers = t, make([]uint32, t.frames) }

func (w *partWalker) enter(depth int, at uint32) {
	w.path = append(w.path[:depth-1], at)
	if w.call >= depth {
		w.call = 0
	}
	if w.part != nil && w.call == 0 && w.part.isPartOf(w.table.places[at].of) {
		w.call = depth
	}
}

func (w *partWalker) sample(depth int, value int64) {
	from, to := 0, depth
	if w.part != nil {
		if w.call == 0 || w.call > depth {
			return
		}
		from, to = w.part.bounds(w.call-1, depth)
	}
	w.stack = w.stack[:0]
	for _, at := range w.path[from:to] {
		w.stack = append(w.stack, w.positionOf(at))
	}
	w.addStack(w.stack, value)
}

// positionOf returns the Builder's position for a place.
func (w *partWalker) positionOf(at uint32) position {
	of := w.table.places[at]
	if w.numbers[of.frame] == 0 {
		w.numbers[of.frame] = w.index.frame(of.of) + 1
	}
	return position{w.numbers[of.frame] - 1, of.line}
}

// PathID identifies a node by the functions from the root to it, so that the same node has the same ID in other
// profiles: the 64-bit FNV-1a hash of the name and the binary's path of each function, each followed by a zero byte.
type PathID uint64

// RootPath is the PathID of the root.
const RootPath PathID = 14695981039346656037

// Child returns the PathID of a child: the function with the given name and binary, called by the node of id.
func (id PathID) Child(name, binary string) PathID { return id.addName(name).addName(binary) }

func (id PathID) addName(text string) PathID {
	const prime = 1099511628211
	for i := range len(text) {
		id = (id ^ PathID(text[i])) * prime
	}
	return id * prime // the zero byte
}

// String returns id as 16 hexadecimal digits.
func (id PathID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// ParsePathID parses the result of String.
func ParsePathID(text string) (PathID, error) {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		return 0, fmt.Errorf("%.40q is no node: want 16 hexadecimal digits", text)
	}
	return PathID(n), nil
}
