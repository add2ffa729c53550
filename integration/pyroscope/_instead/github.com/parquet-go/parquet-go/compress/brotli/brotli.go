// Package brotli stands in for a compression that Pyroscope does not use.
package brotli

import (
	"errors"

	"github.com/parquet-go/parquet-go/format"
)

var errLeftOut = errors.New("brotli is left out of this build")

// Defaults of the fields of Codec.
const (
	DefaultQuality = 0
	DefaultLGWin   = 0
)

// Codec fails.
type Codec struct{ Quality, LGWin int }

func (*Codec) String() string { return "BROTLI" }

// CompressionCodec returns the number of the compression.
func (*Codec) CompressionCodec() format.CompressionCodec { return format.Brotli }

// Encode fails.
func (*Codec) Encode(_, _ []byte) ([]byte, error) { return nil, errLeftOut }

// Decode fails.
func (*Codec) Decode(_, _ []byte) ([]byte, error) { return nil, errLeftOut }
