package pprof

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields in google/pprof's profile.proto.
const (
	fieldSample      = 2 // of Profile
	fieldStringTable = 6

	fieldLocationID = 1 // of Sample
	fieldValue      = 2
	fieldLabel      = 3

	fieldKey     = 1 // of Label
	fieldStr     = 2
	fieldNum     = 3
	fieldNumUnit = 4
)

// Write writes a profile like p.Write, but its memory does not grow with the samples: p.Write takes up to 20 bytes for
// each frame of each sample. p.WriteUncompressed encodes the profile without its samples.
func Write(w io.Writer, p *profile.Profile) error {
	rest := WithoutSamples(p)
	var head bytes.Buffer
	if err := rest.WriteUncompressed(&head); err != nil {
		return fmt.Errorf("encode profile: %w", err)
	}
	strings, err := countStrings(head.Bytes())
	if err != nil {
		return fmt.Errorf("encode profile: %w", err)
	}
	zip := gzip.NewWriter(w)
	if _, err := zip.Write(head.Bytes()); err != nil {
		return err
	}
	s := sampleWriter{next: strings, strings: map[string]uint64{"": 0}}
	for _, sample := range p.Sample {
		if _, err := zip.Write(s.encode(sample)); err != nil {
			return err
		}
	}
	return zip.Close()
}

// WithoutSamples returns a profile with all fields of p except samples. It shares its contents with p.
func WithoutSamples(p *profile.Profile) *profile.Profile {
	return &profile.Profile{
		SampleType: p.SampleType, DefaultSampleType: p.DefaultSampleType,
		Mapping: p.Mapping, Location: p.Location, Function: p.Function,
		Comments: p.Comments, DocURL: p.DocURL, DropFrames: p.DropFrames, KeepFrames: p.KeepFrames,
		TimeNanos: p.TimeNanos, DurationNanos: p.DurationNanos, PeriodType: p.PeriodType, Period: p.Period,
	}
}

// countStrings returns the number of strings in the table of an encoded profile. Strings of later fields are numbered
// from there.
func countStrings(b []byte) (n uint64, err error) {
	for len(b) > 0 {
		field, _, size := protowire.ConsumeField(b)
		if size < 0 {
			return 0, protowire.ParseError(size)
		}
		if field == fieldStringTable {
			n++
		}
		b = b[size:]
	}
	return n, nil
}

// sampleWriter encodes samples one by one.
type sampleWriter struct {
	next    uint64            // number of the next string
	strings map[string]uint64 // numbers of strings in labels

	out, message, packed []byte // scratch
}

// encode returns the fields of the sample's new strings, followed by the field of the sample. The bytes are valid until
// the next call.
func (s *sampleWriter) encode(sample *profile.Sample) []byte {
	s.out, s.message, s.packed = s.out[:0], s.message[:0], s.packed[:0]
	for _, l := range sample.Location {
		s.packed = protowire.AppendVarint(s.packed, l.ID)
	}
	s.packField(fieldLocationID)
	for _, v := range sample.Value {
		s.packed = protowire.AppendVarint(s.packed, uint64(v))
	}
	s.packField(fieldValue)
	for _, key := range slices.Sorted(maps.Keys(sample.Label)) {
		for _, text := range sample.Label[key] {
			s.label(fieldKey, s.number(key), fieldStr, s.number(text))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sample.NumLabel)) {
		units := sample.NumUnit[key]
		for i, n := range sample.NumLabel[key] {
			unit := ""
			if i < len(units) {
				unit = units[i]
			}
			s.label(fieldKey, s.number(key), fieldNum, uint64(n), fieldNumUnit, s.number(unit))
		}
	}
	s.out = protowire.AppendTag(s.out, fieldSample, protowire.BytesType)
	s.out = protowire.AppendBytes(s.out, s.message)
	return s.out
}

// packField appends the numbers of s.packed as a field, unless there are none.
func (s *sampleWriter) packField(field protowire.Number) {
	if len(s.packed) == 0 {
		return
	}
	s.message = protowire.AppendTag(s.message, field, protowire.BytesType)
	s.message = protowire.AppendBytes(s.message, s.packed)
	s.packed = s.packed[:0]
}

// label appends a label. fields are pairs of a field number and a value. It omits zero values, the default.
func (s *sampleWriter) label(fields ...uint64) {
	for of := range slices.Chunk(fields, 2) {
		if of[1] != 0 {
			s.packed = protowire.AppendTag(s.packed, protowire.Number(of[0]), protowire.VarintType)
			s.packed = protowire.AppendVarint(s.packed, of[1])
		}
	}
	s.packField(fieldLabel)
}

// number returns the number of a string, and writes the string if it is new.
func (s *sampleWriter) number(text string) uint64 {
	n, ok := s.strings[text]
	if !ok {
		n = s.next
		s.next++
		s.strings[text] = n
		s.out = protowire.AppendTag(s.out, fieldStringTable, protowire.BytesType)
		s.out = protowire.AppendString(s.out, text)
	}
	return n
}
