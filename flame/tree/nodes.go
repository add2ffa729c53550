package tree

import (
	"encoding/binary"
	"slices"
)

// The nodes of a set are in preorder; the children of a node are in the order of their places. Each node has
//   - a number: its two lowest bits are flags, the other bits are the levels from the previous node up to its parent;
//   - with isTwin, the number of bytes from here to the next node with the same parent and the same frame;
//   - the number of its place;
//   - with hasSelf, the value of the samples that end in it.
//
// The node before the first one is the root.
const (
	hasSelf = 1 << iota
	isTwin
	flagBits = iota
)

// encoder writes the nodes of a set.
type encoder struct {
	data []byte
	way  []encoded // path to the previous node; depth 1 is at index 0
}

// encoded is a node that was written.
type encoded struct {
	begin int // offset in data
	frame uint32
}

// enter writes a node at a depth. Its parent is the last node written at the depth above.
func (e *encoder) enter(depth int, place, frame uint32) {
	up := len(e.way) + 1 - depth
	if up > 0 && e.way[depth-1].frame == frame {
		e.markTwin(e.way[depth-1].begin)
	}
	e.way = append(e.way[:depth-1], encoded{len(e.data), frame})
	e.data = binary.AppendUvarint(e.data, uint64(up)<<flagBits)
	e.data = binary.AppendUvarint(e.data, uint64(place))
}

// sample writes the value of the samples that end in the node written last.
func (e *encoder) sample(value int64) {
	e.data[e.way[len(e.way)-1].begin] |= hasSelf
	e.data = binary.AppendVarint(e.data, value)
}

// markTwin marks the node at offset begin: the next node to write is its twin.
func (e *encoder) markTwin(begin int) {
	e.data[begin] |= isTwin
	_, size := binary.Uvarint(e.data[begin:])
	at := begin + size
	var skipped [binary.MaxVarintLen64]byte
	e.data = slices.Insert(e.data, at, skipped[:binary.PutUvarint(skipped[:], uint64(len(e.data)-at))]...)
}

// cursor iterates over the nodes of a set.
type cursor struct {
	reader
	from    *Folded
	numbers []uint32 // numbers of its frames in the index of the Merge
	twinAt  int      // depth of the node that it is limited to, 0 if it has the whole set

	// The current node.
	depth int // from 1; 0 after the last node
	place
	self int64
	rest []byte // data from the twin of the node on; nil if it has none
}

// nextNode moves to the next node. A cursor at a node with a twin must be split instead.
func (c *cursor) nextNode() {
	if len(c.data) == 0 {
		c.depth = 0
		return
	}
	first := c.unsigned()
	c.depth += 1 - int(first>>flagBits)
	c.readNode(first)
}

// readNode reads the rest of a node, after its first number.
func (c *cursor) readNode(first uint64) {
	if first&isTwin != 0 {
		size := c.unsigned()
		c.data, c.rest = c.data[:size], c.data[size:]
	}
	c.place, c.self = c.from.places[c.unsigned()], 0
	if first&hasSelf != 0 {
		c.self = c.signed() * c.from.scale
	}
}

// split hands the node of c, and the nodes below it, to twin and moves c to the next node of the same frame.
func (c *cursor) split(twin *cursor) {
	*twin = *c
	twin.rest, twin.twinAt = nil, c.depth
	c.data, c.rest = c.rest, nil
	c.readNode(c.unsigned())
}

// number returns the number of the current frame.
func (c *cursor) number() uint32 { return c.numbers[c.frame] }

// before reports whether the frame of c is ordered before the frame of other.
func (c *cursor) before(other *cursor) bool { return c.of.order() < other.of.order() }

// reader reads the output of an encoder.
type reader struct{ data []byte }

func (r *reader) unsigned() uint64 {
	if r.data[0] < 0x80 { // nearly always
		n := uint64(r.data[0])
		r.data = r.data[1:]
		return n
	}
	n, size := binary.Uvarint(r.data)
	r.data = r.data[size:]
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.data)
	r.data = r.data[size:]
	return n
}
