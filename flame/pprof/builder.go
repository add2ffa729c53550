package pprof

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/kind"
)

// Options set the fields of a Builder's profile besides stacks.
type Options struct {
	Kind     kind.Kind     // determines the values of samples
	Count    bool          // add Samples, the number of samples taken, as the first value
	Period   int64         // period of sampling, in the unit of the kind's first value
	Time     time.Time     // time of the collection
	Duration time.Duration // duration of the collection; 0 if unknown
	Series   string        // identifies the labels of the profile; times are unique per series
	Clock    *Clock        // shared by builders to make times of profiles unique; may be nil
	Stacks   int           // expected number of stacks, 0 if unknown
}

// Samples is the type of the value with the number of samples taken of a stack, and CountUnit its unit, as in the
// profiles of Go.
const (
	Samples   = "samples"
	CountUnit = "count"
)

// IsCount reports whether t is the type of the number of samples.
func IsCount(t *profile.ValueType) bool { return t.Type == Samples && t.Unit == CountUnit }

// WithoutCount returns a profile without the number of samples that a Builder with Options.Count has written. It shares
// its contents with p.
func WithoutCount(p *profile.Profile) *profile.Profile {
	if len(p.SampleType) < 2 || !IsCount(p.SampleType[0]) {
		return p
	}
	out := WithoutSamples(p)
	out.SampleType, out.Sample = p.SampleType[1:], make([]*profile.Sample, len(p.Sample))
	for i, s := range p.Sample {
		without := *s
		without.Value = s.Value[1:]
		out.Sample[i] = &without
	}
	return out
}

// Builder collects the whole stacks of one target into a profile. It is not safe for concurrent use.
type Builder struct {
	opts   Options
	values []kind.Value // values of samples

	known   map[*Location]*profile.Location // profile locations by added Location
	same    map[locationKey]*location       // profile locations by content
	frames  int                             // number of frames of all samples
	samples map[sampleKey]*profile.Sample   // samples by stack and labels
	largest map[*profile.Sample]int64       // largest value of a sample, see Largest
	out     *out

	stack []*profile.Location // scratch of Add
	key   []byte              // scratch of Add
}

// sampleKey is the hash of a stack and its labels. Hashes save memory, as a recording may have hundreds of thousands of
// stacks, which are in the profile already. No two stacks have the same hash.
type sampleKey [sha256.Size]byte

// NewBuilder returns an empty Builder.
func NewBuilder(opts Options) *Builder {
	if opts.Clock == nil {
		opts.Clock = &Clock{}
	}
	return &Builder{
		opts:    opts,
		values:  kind.Of(opts.Kind).Values,
		known:   make(map[*Location]*profile.Location, opts.Stacks),
		same:    make(map[locationKey]*location, opts.Stacks),
		samples: make(map[sampleKey]*profile.Sample, opts.Stacks),
		largest: map[*profile.Sample]int64{},
		out:     newOut(opts),
	}
}

// Add adds value, in the unit of the kind's first value, to the sample with the given stack, leaf first, and labels.
// Labels in a different order make a different sample. Add ignores a value below 1, since Pyroscope would drop the
// sample. A stack without frames gets the frame [unknown].
//
// Add keeps neither stack nor labels, but it keeps the Locations.
func (b *Builder) Add(stack []*Location, value int64, labels []Label) {
	b.AddAt(nil, stack, Weight{value, 1, value}, labels)
}

// Weight is the sum of the samples of a stack.
type Weight struct {
	Value   int64 // sum of the values, in the unit of the kind's first value
	Samples int64 // number of samples taken
	Largest int64 // largest value of a sample
}

// AddAt is like Add, for several samples with a Weight, taken at the given times if known, in ns since 1970; see
// Timestamp.
func (b *Builder) AddAt(times []int64, stack []*Location, w Weight, labels []Label) {
	if w.Value < 1 {
		return
	}
	if len(stack) == 0 {
		stack = []*Location{pseudoFrame(unnamed)}
	}
	b.resolve(stack, labels)
	key := sampleKey(sha256.Sum256(b.key))
	s := b.samples[key]
	if s == nil {
		s = b.out.addSample(b.stack, labels)
		b.samples[key] = s
		b.frames += len(b.stack)
	}
	values := s.Value
	if b.opts.Count {
		values[0] += w.Samples
		values = values[1:]
	}
	for i, v := range b.values {
		values[i] += w.Value * v.Per
	}
	if b.opts.Count {
		b.noteLargest(s, w)
	}
	if len(times) > 0 {
		if s.NumLabel == nil {
			s.NumLabel = map[string][]int64{}
		}
		s.NumLabel[Timestamp] = append(s.NumLabel[Timestamp], times...)
	}
}

// noteLargest updates the largest value of a sample to which w was added, unless all values equal the period.
func (b *Builder) noteLargest(s *profile.Sample, w Weight) {
	if !b.opts.Kind.IsPeriodic() || w.Value != w.Samples*b.opts.Period {
		b.largest[s] = max(b.largest[s], w.Largest)
	}
}

// Frames returns the number of frames of the distinct samples.
func (b *Builder) Frames() int { return b.frames }

// Forget drops the references to added Locations. Their contents stay: later equal Locations are merged with them.
func (b *Builder) Forget() { clear(b.known) }

// resolve sets b.stack to the profile locations of stack, and b.key to a key of stack and labels.
func (b *Builder) resolve(stack []*Location, labels []Label) {
	b.stack, b.key = b.stack[:0], b.key[:0]
	b.key = binary.AppendUvarint(b.key, uint64(len(stack)))
	for _, l := range stack {
		known := b.known[l]
		if known == nil {
			known = b.intern(l)
		}
		b.stack = append(b.stack, known)
		b.key = binary.AppendUvarint(b.key, known.ID)
	}
	for _, l := range labels {
		b.key = appendText(b.key, l.Key)
		b.key = appendText(b.key, l.Text)
		b.key = binary.AppendVarint(b.key, l.Number)
		b.key = appendText(b.key, l.NumUnit)
	}
}

// intern returns the one location of the profile with the content of l.
func (b *Builder) intern(l *Location) *profile.Location {
	fresh := b.out.location(l)
	key := keyOf(fresh)
	for known := b.same[key]; known != nil; known = known.next {
		if equal(known.Location, fresh) {
			b.known[l] = known.Location
			return known.Location
		}
	}
	b.out.addLocation(fresh)
	b.same[key] = &location{fresh, b.same[key]}
	b.known[l] = fresh
	return fresh
}

// Profile returns the finished profile, or nil if it has no samples. It belongs to the caller, and the Builder must not
// be used again.
func (b *Builder) Profile() *profile.Profile {
	p := b.out.profile
	if len(p.Sample) == 0 {
		return nil
	}
	for s, value := range b.largest {
		if s.Value[0] > 1 {
			b.out.label(s, Label{Key: Largest, Number: value, NumUnit: b.values[0].Unit})
		}
	}
	p.TimeNanos = b.opts.Clock.Unique(b.opts.Series, b.opts.Time)
	return p
}

// appendText appends s such that different sequences of strings give different bytes.
func appendText(to []byte, s string) []byte {
	to = binary.AppendUvarint(to, uint64(len(s)))
	return append(to, s...)
}
