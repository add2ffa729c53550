package main

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is a field of a message in protobuf's wire format.
type field struct {
	number protowire.Number
	bytes  []byte // of a message, a string or packed numbers
	value  uint64 // of a number
}

// eachField calls visit for the fields of a message.
func eachField(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		f := field{number: number}
		switch kind {
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			f.value, n = protowire.ConsumeFixed64(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// varints returns the numbers of a repeated field, packed or not.
func (f field) varints() ([]uint64, error) {
	if f.bytes == nil {
		return []uint64{f.value}, nil
	}
	var values []uint64
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		values = append(values, v)
		rest = rest[n:]
	}
	return values, nil
}

// fixed64s returns the numbers of a repeated field of type fixed64, packed or not.
func (f field) fixed64s() []uint64 {
	if f.bytes == nil {
		return []uint64{f.value}
	}
	var values []uint64
	for rest := f.bytes; len(rest) >= 8; rest = rest[8:] {
		values = append(values, binary.LittleEndian.Uint64(rest))
	}
	return values
}
