package write

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// limits are what Pyroscope takes in one profile with its defaults, or a little
// less: it refuses one that is bigger than the burst of its rate limit, 2 MB, at
// any rate.
type limits struct {
	bytes   int // uncompressed
	samples int
	depth   int // locations of a stack
}

var serverLimits = limits{bytes: 1_900_000, samples: 16_000, depth: 1_000}

// maxUncompressed bounds a profile that is looked at, in bytes.
const maxUncompressed = 64 << 20

// The fewest bytes of a sample: its tag and length, a location and a value with
// theirs.
const minSampleBytes = 8

var errTooBig = fmt.Errorf("profile of more than %d MiB uncompressed", maxUncompressed>>20)

// split returns a profile as profiles that keep to the limits, or raw alone if it
// does, or if it cannot be read: that is for the server to say. Each part gets a
// time of its own, for Pyroscope drops a second profile of the same labels and
// millisecond. Stacks that are too deep lose frames in their middle, where one
// says how many; Pyroscope would cut the leaf side off.
func (l limits) split(raw []byte, now time.Time) ([][]byte, error) {
	plain, err := gunzip(raw)
	switch {
	case errors.Is(err, errTooBig):
		return nil, err
	case err != nil || l.fits(plain):
		return [][]byte{raw}, nil
	}
	p, err := profile.ParseUncompressed(plain)
	if err != nil || p.CheckValid() != nil {
		return [][]byte{raw}, nil
	}
	l.shorten(p)
	if p.TimeNanos == 0 {
		p.TimeNanos = now.UnixNano()
	}
	parts, err := l.encode(p)
	if err != nil {
		return [][]byte{raw}, nil
	}
	return parts, nil
}

// gunzip returns a profile without its compression, if it has one.
func gunzip(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != 0x1f || raw[1] != 0x8b {
		return raw, nil
	}
	in, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(in, maxUncompressed+1))
	if n > maxUncompressed {
		return nil, errTooBig
	}
	return out.Bytes(), err
}

// fits reports whether a profile keeps to the limits, without decoding it. What is
// not a profile does.
func (l limits) fits(plain []byte) bool {
	if len(plain) > l.bytes {
		return false
	}
	if len(plain) < l.samples*minSampleBytes && len(plain) < l.depth {
		return true
	}
	samples := 0
	for len(plain) > 0 {
		number, kind, value, rest := field(plain)
		if rest == nil {
			return true
		}
		plain = rest
		if number != fieldSample || kind != protowire.BytesType {
			continue
		}
		samples++
		if samples > l.samples || len(value) > l.depth && depth(value) > l.depth {
			return false
		}
	}
	return true
}

// Fields of pprof's Profile and Sample.
const (
	fieldSample   = 2
	fieldLocation = 1
)

// field splits off the first field of a message. rest is nil if it has none.
func field(message []byte) (number protowire.Number, kind protowire.Type, value, rest []byte) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, 0, nil, nil
	}
	size := protowire.ConsumeFieldValue(number, kind, message[n:])
	if size < 0 {
		return 0, 0, nil, nil
	}
	value, rest = message[n:n+size], message[n+size:]
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(value)
	}
	return number, kind, value, rest
}

// depth counts the locations of a sample.
func depth(sample []byte) int {
	count := 0
	for len(sample) > 0 {
		number, kind, value, rest := field(sample)
		if rest == nil {
			return count
		}
		sample = rest
		switch {
		case number != fieldLocation:
		case kind == protowire.BytesType: // packed: each varint ends with a byte below 0x80
			for _, b := range value {
				if b < 0x80 {
					count++
				}
			}
		default:
			count++
		}
	}
	return count
}

// shorten cuts the middle out of stacks that are too deep.
func (l limits) shorten(p *profile.Profile) {
	marks := map[int]*profile.Location{} // by the number of missing frames
	for _, sample := range p.Sample {
		stack := sample.Location
		if len(stack) <= l.depth {
			continue
		}
		root := (l.depth - 1) / 2
		leaf := l.depth - 1 - root
		missing := len(stack) - leaf - root
		mark := marks[missing]
		if mark == nil {
			mark = pseudoLocation(p, fmt.Sprintf("[truncated %d frames]", missing))
			marks[missing] = mark
		}
		short := append(make([]*profile.Location, 0, l.depth), stack[:leaf]...)
		sample.Location = append(append(short, mark), stack[len(stack)-root:]...)
	}
}

// pseudoLocation adds a location that is a name only.
func pseudoLocation(p *profile.Profile, name string) *profile.Location {
	function := &profile.Function{ID: 1, Name: name}
	for _, f := range p.Function {
		function.ID = max(function.ID, f.ID+1)
	}
	location := &profile.Location{ID: 1, Line: []profile.Line{{Function: function}}}
	for _, other := range p.Location {
		location.ID = max(location.ID, other.ID+1)
	}
	p.Function = append(p.Function, function)
	p.Location = append(p.Location, location)
	return location
}

// encode returns profiles of the samples, as many as it takes, each a millisecond
// after the one before.
func (l limits) encode(p *profile.Profile) ([][]byte, error) {
	samples, start := p.Sample, p.TimeNanos
	defer func() { p.Sample, p.TimeNanos = samples, start }()
	var parts [][]byte
	for todo := [][]*profile.Sample{samples}; len(todo) > 0; {
		p.Sample, todo = todo[0], todo[1:]
		half := len(p.Sample) / 2
		var plain bytes.Buffer
		tooMany := len(p.Sample) > l.samples
		if !tooMany {
			part, err := profile.Merge([]*profile.Profile{p}) // leaves out what the samples do not need
			if err != nil {
				return nil, err
			}
			if err := part.WriteUncompressed(&plain); err != nil {
				return nil, err
			}
		}
		if tooMany || plain.Len() > l.bytes && half > 0 {
			todo = append([][]*profile.Sample{p.Sample[:half], p.Sample[half:]}, todo...)
			continue
		}
		packed, err := compress(plain.Bytes())
		if err != nil {
			return nil, err
		}
		parts = append(parts, packed)
		p.TimeNanos += int64(time.Millisecond)
	}
	return parts, nil
}

func compress(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	out, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := out.Write(plain); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
