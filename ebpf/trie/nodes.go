package trie

import (
	"encoding/binary"
	"slices"
)

// The nodes of a set are in preorder, those below one node in the order of their places. Each is
//   - a number: its two lowest bits are flags, the others say how many levels its parent is above the node before it;
//   - with isTwin, how many bytes there are from here to the next node below the same parent, which has the same frame;
//   - the number of its place;
//   - with hasSelf, the value of the samples that end in it.
//
// The node before the first is the root.
const (
	hasSelf = 1 << iota
	isTwin
	flagBits = iota
)

// encoder writes the nodes of a set.
type encoder struct {
	data []byte
	way  []encoded // by depth, from 1 on, to the node before
}

// encoded is a node that was written.
type encoded struct {
	begin int // in data
	frame uint32
}

// enter writes a node of a depth, below the last one of the depth before.
func (e *encoder) enter(depth int, place, frame uint32) {
	up := len(e.way) + 1 - depth
	if up > 0 && e.way[depth-1].frame == frame {
		e.markTwin(e.way[depth-1].begin)
	}
	e.way = append(e.way[:depth-1], encoded{len(e.data), frame})
	e.data = binary.AppendUvarint(e.data, uint64(up)<<flagBits)
	e.data = binary.AppendUvarint(e.data, uint64(place))
}

// sample writes the value of the samples that end in the node before.
func (e *encoder) sample(value int64) {
	e.data[e.way[len(e.way)-1].begin] |= hasSelf
	e.data = binary.AppendVarint(e.data, value)
}

// markTwin writes into the node that begins there that the next one to come is its twin.
func (e *encoder) markTwin(begin int) {
	e.data[begin] |= isTwin
	_, size := binary.Uvarint(e.data[begin:])
	at := begin + size
	var skipped [binary.MaxVarintLen64]byte
	e.data = slices.Insert(e.data, at, skipped[:binary.PutUvarint(skipped[:], uint64(len(e.data)-at))]...)
}

// cursor goes through the nodes of a set.
type cursor struct {
	reader
	from    *Folded
	numbers []uint32 // of its frames
	twinAt  int      // depth of the node that it has alone; 0: it has all

	// Of the node that it is at.
	depth int // from 1 on; 0: it is behind all nodes
	place
	self int64
	rest []byte // what begins with a node of the same frame, below the same parent; nil: there is none
}

// next goes to the next node. A cursor whose node has a twin must be split instead.
func (c *cursor) next() {
	if len(c.data) == 0 {
		c.depth = 0
		return
	}
	first := c.unsigned()
	c.depth += 1 - int(first>>flagBits)
	c.read(first)
}

// read reads what is behind the first number of a node.
func (c *cursor) read(first uint64) {
	if first&isTwin != 0 {
		size := c.unsigned()
		c.data, c.rest = c.data[:size], c.data[size:]
	}
	c.place, c.self = c.from.places[c.unsigned()], 0
	if first&hasSelf != 0 {
		c.self = c.signed() * c.from.scale
	}
}

// split leaves the node that c is at, and those below it, to a twin, and goes on to the next one of its frame.
func (c *cursor) split(twin *cursor) {
	*twin = *c
	twin.rest, twin.twinAt = nil, c.depth
	c.data, c.rest = c.rest, nil
	c.read(c.unsigned())
}

// number returns the number of the frame.
func (c *cursor) number() uint32 { return c.numbers[c.frame] }

// before reports whether c is at a frame that comes before that of another.
func (c *cursor) before(other *cursor) bool { return c.of.order() < other.of.order() }

// reader reads what an encoder wrote.
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
