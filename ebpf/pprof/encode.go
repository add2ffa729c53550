package pprof

import (
	"bytes"
	"compress/gzip"
	"fmt"

	"github.com/google/pprof/profile"
)

// Encoder turns profiles into the gzipped protobuf that Pyroscope takes. It keeps
// its buffers from one profile to the next. It is not safe for concurrent use.
// The zero value is ready.
type Encoder struct {
	out bytes.Buffer
	zip *gzip.Writer
}

// Encode returns p encoded, compressed fast rather than well. The bytes are the
// caller's own.
func (e *Encoder) Encode(p *profile.Profile) ([]byte, error) {
	e.out.Reset()
	if e.zip == nil {
		zip, err := gzip.NewWriterLevel(&e.out, gzip.BestSpeed)
		if err != nil {
			return nil, fmt.Errorf("encode profile: %w", err)
		}
		e.zip = zip
	}
	e.zip.Reset(&e.out)
	if err := p.WriteUncompressed(e.zip); err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	if err := e.zip.Close(); err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return bytes.Clone(e.out.Bytes()), nil
}
