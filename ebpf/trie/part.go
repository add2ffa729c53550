package trie

import (
	"fmt"
	"slices"
	"strconv"
)

// part chooses which part of a stack, root first, a Builder adds; nil for nothing of it. The stack is the Builder's.
type part func(stack []position) []position

// NewCallees returns a Builder of what a function calls: of each stack with the function, the part from its outermost
// call on. It is found by its name as it is shown, and by the path of its binary unless that is "".
func NewCallees(show func(name string) string, function, binary string) *Builder {
	b := NewBuilder(show)
	b.part = func(stack []position) []position {
		at := b.outermost(stack, function, binary)
		if at < 0 {
			return nil
		}
		return stack[at:]
	}
	return b
}

// NewCallers returns a Builder of who calls a function: of each stack with the function, the part up to its outermost
// call, innermost first. The function is the first node, its callers are below it.
func NewCallers(show func(name string) string, function, binary string) *Builder {
	b := NewBuilder(show)
	b.part = func(stack []position) []position {
		at := b.outermost(stack, function, binary)
		if at < 0 {
			return nil
		}
		out := slices.Clone(stack[:at+1])
		slices.Reverse(out)
		return out
	}
	return b
}

func (b *Builder) outermost(stack []position, function, binary string) int {
	return slices.IndexFunc(stack, func(p position) bool {
		f := b.frames[p.frame].Value()
		return f.name == function && (binary == "" || f.mapping.file == binary)
	})
}

// PathID identifies a node by its functions from the root on, so that it means the same node in other profiles: the
// 64-bit FNV-1a hash of the name and the binary's path of each function, each followed by a zero byte.
type PathID uint64

// RootPath is the PathID of the root.
const RootPath PathID = 14695981039346656037

// Child returns the PathID of a function that the node calls.
func (id PathID) Child(name, binary string) PathID { return id.add(name).add(binary) }

func (id PathID) add(text string) PathID {
	const prime = 1099511628211
	for i := range len(text) {
		id = (id ^ PathID(text[i])) * prime
	}
	return id * prime // the zero byte
}

// String returns id as 16 hexadecimal digits.
func (id PathID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// ParsePathID is the reverse of String.
func ParsePathID(text string) (PathID, error) {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		return 0, fmt.Errorf("%.40q is no node: want 16 hexadecimal digits", text)
	}
	return PathID(n), nil
}
