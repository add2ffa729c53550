// Package lz4 stands in for a compression that Pyroscope does not use.
package lz4

import (
	"errors"

	"github.com/parquet-go/parquet-go/format"
)

var errLeftOut = errors.New("lz4 is left out of this build")

// DefaultLevel is the default of the field of Codec.
const DefaultLevel = 0

// Codec fails.
type Codec struct{ Level int }

func (*Codec) String() string { return "LZ4_RAW" }

// CompressionCodec returns the number of the compression.
func (*Codec) CompressionCodec() format.CompressionCodec { return format.Lz4Raw }

// Encode fails.
func (*Codec) Encode(_, _ []byte) ([]byte, error) { return nil, errLeftOut }

// Decode fails.
func (*Codec) Decode(_, _ []byte) ([]byte, error) { return nil, errLeftOut }
