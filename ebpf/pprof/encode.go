package pprof

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"
)

// compression is a level of gzip: as small as the standard library's fastest one, in about 60 % of its time.
const compression = 3

// compressor compresses for the whole process: it keeps more than a megabyte from one time to the next.
var compressor struct {
	sync.Mutex
	out bytes.Buffer
	zip *gzip.Writer // nil before its first use
}

// maxKeptOut bounds the memory that is kept for what comes out of the compressor.
const maxKeptOut = 512 << 10

// Compress returns what write writes, compressed with gzip, fast rather than well. The bytes are the caller's own.
// Those who call it at a time wait for each other.
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
	return bytes.Clone(c.out.Bytes()), nil // has no more memory than it needs
}

// Encode returns p as the gzipped protobuf that Pyroscope takes. See Compress.
func Encode(p *profile.Profile) ([]byte, error) {
	data, err := Compress(p.WriteUncompressed)
	if err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return data, nil
}
