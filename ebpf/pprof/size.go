package pprof

import "math/bits"

// Upper bounds of sizes in the protobuf encoding of profile.proto: one byte for a
// field's tag, and for an index into one of the tables at most idSize bytes,
// since no table of a profile of maxBytes has 2^21 entries.
const (
	tagSize   = 1
	idSize    = 3
	int64Size = 10
	indexSize = tagSize + idSize

	headerSize    = 256 // value types, times, period, the empty string
	functionSize  = tagSize + 1 + 4*indexSize
	mappingSize   = tagSize + 1 + 3*indexSize + 3*(tagSize+int64Size) + 4*(tagSize+1)
	valueSize     = tagSize + int64Size
	textLabelSize = tagSize + 1 + 2*indexSize
	numLabelSize  = tagSize + 1 + 2*indexSize + tagSize + int64Size
)

// varintSize returns the length of n as a varint.
func varintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// messageSize returns the length of a field that holds a message of n bytes.
func messageSize(n int) int { return tagSize + varintSize(n) + n }

// textSize bounds what a string adds to the string table.
func textSize(s string) int { return messageSize(len(s)) }

// locationSize bounds the size of a location without what it refers to.
func locationSize(l *location) int {
	const line = tagSize + 1 + indexSize + tagSize + int64Size
	return messageSize(2*indexSize + tagSize + int64Size + len(l.lines)*line)
}
