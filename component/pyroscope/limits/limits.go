// Package limits makes a pprof profile fit a Pyroscope server. The server refuses large profiles, and truncates deep
// stacks silently. This package splits a profile into several, or cuts stacks and marks the cut.
package limits

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits are the limits of one profile.
type Limits struct {
	Bytes   int // uncompressed
	Samples int
	Depth   int // locations in a stack
}

// Server returns the limits of a Pyroscope server with its defaults, or slightly lower values. Even without other
// traffic, the server refuses a profile bigger than the burst of its rate limit, 2 MB.
func Server() Limits { return Limits{Bytes: 1_900_000, Samples: 16_000, Depth: 1_000} }

// maxUncompressed bounds the profiles that Split decodes, in bytes.
const maxUncompressed = 64 << 20

// minSampleBytes is the smallest size of a sample: a tag and a length for the sample, the location and the value each.
const minSampleBytes = 8

var errTooBig = fmt.Errorf("profile of more than %d MiB uncompressed", maxUncompressed>>20)

// Split splits a profile into profiles that keep to the limits. It returns raw unchanged if raw keeps to them, or if
// raw cannot be decoded, which the server will report. Each part gets its own time, because Pyroscope drops a second
// profile with the same labels and millisecond. An error says that the profile is too big to be decoded.
//
// Split cuts frames out of the middle of a stack that is too deep, and puts a frame there that says how many are
// missing. The root identifies the program, the leaf shows where its time goes, and the middle of such a deep stack is
// mostly recursion. Pyroscope would cut off the leaf. Split shortens a stack in the same way if its names exceed the
// limit in bytes by themselves.
func (l Limits) Split(raw []byte, now time.Time) ([][]byte, error) {
	plain, err := gunzip(raw)
	switch {
	case errors.Is(err, errTooBig):
		return nil, err
	case err != nil || l.fitsPlain(plain):
		return [][]byte{raw}, nil
	}
	p, err := profile.ParseUncompressed(plain)
	if err != nil || p.CheckValid() != nil {
		return [][]byte{raw}, nil
	}
	cut := newCutter(p)
	for _, sample := range p.Sample {
		cut.shorten(sample, l.Depth, fmt.Sprintf("Pyroscope keeps %s", thousands(l.Depth)))
	}
	if p.TimeNanos == 0 {
		p.TimeNanos = now.UnixNano()
	}
	parts, err := l.encode(p, cut)
	if err != nil {
		return [][]byte{raw}, nil
	}
	return parts, nil
}

// gunzip returns a profile uncompressed. An uncompressed profile is returned unchanged.
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

// fitsPlain reports whether a profile keeps to the limits, without decoding it. Bytes that are not a profile fit.
func (l Limits) fitsPlain(plain []byte) bool {
	if len(plain) > l.Bytes {
		return false
	}
	if len(plain) < l.Samples*minSampleBytes && len(plain) < l.Depth {
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
		if samples > l.Samples || len(value) > l.Depth && depth(value) > l.Depth {
			return false
		}
	}
	return true
}

// Field numbers in pprof's Profile and Sample.
const (
	fieldSample   = 2
	fieldLocation = 1
)

// field splits off the first field of a message. rest is nil if there is no valid field.
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

// cutter cuts frames out of the stacks of a profile. In their place it puts a frame that says how many are missing, and
// why.
type cutter struct {
	profile *profile.Profile
	marks   map[string]*profile.Location // by the marks' names
	missing map[*profile.Location]int    // number of frames that a mark replaces
}

func newCutter(p *profile.Profile) *cutter {
	return &cutter{profile: p, marks: map[string]*profile.Location{}, missing: map[*profile.Location]int{}}
}

// shorten cuts the middle out of a stack that is deeper than depth.
func (c *cutter) shorten(sample *profile.Sample, depth int, why string) {
	stack := sample.Location
	if len(stack) <= depth {
		return
	}
	root := (depth - 1) / 2
	leaf := depth - 1 - root
	missing := 0
	for _, l := range stack[leaf : len(stack)-root] {
		missing += max(1, c.missing[l])
	}
	short := append(make([]*profile.Location, 0, depth), stack[:leaf]...)
	short = append(short, c.markMissing(missing, why))
	sample.Location = append(short, stack[len(stack)-root:]...)
}

func (c *cutter) markMissing(missing int, why string) *profile.Location {
	text := fmt.Sprintf("[%d frames cut: %s]", missing, why)
	mark := c.marks[text]
	if mark == nil {
		mark = pseudoLocation(c.profile, text)
		c.marks[text], c.missing[mark] = mark, missing
	}
	return mark
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// pseudoLocation adds a location that has only a name. It also gets a mapping, because Pyroscope drops samples whose
// locations have none.
func pseudoLocation(p *profile.Profile, name string) *profile.Location {
	function := &profile.Function{ID: 1, Name: name}
	for _, f := range p.Function {
		function.ID = max(function.ID, f.ID+1)
	}
	mapping := &profile.Mapping{ID: 1, HasFunctions: true}
	for _, m := range p.Mapping {
		mapping.ID = max(mapping.ID, m.ID+1)
	}
	location := &profile.Location{ID: 1, Mapping: mapping, Line: []profile.Line{{Function: function}}}
	for _, other := range p.Location {
		location.ID = max(location.ID, other.ID+1)
	}
	p.Function = append(p.Function, function)
	p.Location = append(p.Location, location)
	p.Mapping = append(p.Mapping, mapping)
	return location
}

// encode returns the samples in as many profiles as they need, each a millisecond later than the previous one.
func (l Limits) encode(p *profile.Profile, cut *cutter) ([][]byte, error) {
	samples, start := p.Sample, p.TimeNanos
	defer func() { p.Sample, p.TimeNanos = samples, start }()
	var parts [][]byte
	for todo := [][]*profile.Sample{samples}; len(todo) > 0; {
		p.Sample, todo = todo[0], todo[1:]
		half := len(p.Sample) / 2
		var plain bytes.Buffer
		tooMany := len(p.Sample) > l.Samples
		if !tooMany {
			part, err := profile.Merge([]*profile.Profile{p}) // leaves out everything that the samples do not refer to
			if err != nil {
				return nil, err
			}
			if err := part.WriteUncompressed(&plain); err != nil {
				return nil, err
			}
		}
		if tooMany || plain.Len() > l.Bytes && half > 0 {
			todo = append([][]*profile.Sample{p.Sample[:half], p.Sample[half:]}, todo...)
			continue
		}
		if plain.Len() > l.Bytes && l.halve(p, cut) {
			todo = append([][]*profile.Sample{p.Sample}, todo...)
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

// fewestFrames is the smallest depth to which halve cuts a stack.
const fewestFrames = 4

// halve cuts the stack of the only sample of p to half its depth. It returns false if the stack is already too short.
func (l Limits) halve(p *profile.Profile, cut *cutter) bool {
	sample := p.Sample[0]
	depth := len(sample.Location) / 2
	if depth < fewestFrames {
		return false
	}
	whole := *sample // do not modify the caller's sample
	p.Sample = []*profile.Sample{&whole}
	cut.shorten(&whole, depth, fmt.Sprintf("Pyroscope takes %s bytes", thousands(l.Bytes)))
	return true
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
