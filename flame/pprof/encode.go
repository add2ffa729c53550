package pprof

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"
)

// compression is the level of gzip. The output is as small as with the standard library's fastest level, in about 60 %
// of the time.
const compression = 3

// compressor is the only compressor of the process, as it keeps more than a megabyte between uses.
var compressor struct {
	sync.Mutex
	out bytes.Buffer
	zip *gzip.Writer // nil before its first use
}

// maxKeptOut is the maximum size of the output buffer to keep.
const maxKeptOut = 512 << 10

// Compress returns the output of write, compressed with gzip, fast rather than well. The caller owns the bytes.
// Concurrent calls wait for each other.
func Compress(write func(io.Writer) error) ([]byte, error) {
	c := &compressor
	c.Lock()
	defer c.Unlock()
	if c.zip == nil {
		zip, err := gzip.NewWriterLevel(nil, compression)
		if err != nil {
			return nil, err
		}
		c.zip = zip
	}
	if c.out.Reset(); c.out.Cap() > maxKeptOut {
		c.out = bytes.Buffer{}
	}
	c.zip.Reset(&c.out)
	if err := write(c.zip); err != nil {
		return nil, err
	}
	if err := c.zip.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(c.out.Bytes()), nil // no larger than needed
}

// Encode returns p as gzipped protobuf, as Pyroscope expects it. See Compress.
func Encode(p *profile.Profile) ([]byte, error) {
	data, err := Compress(p.WriteUncompressed)
	if err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return data, nil
}
