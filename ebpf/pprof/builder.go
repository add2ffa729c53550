package pprof

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kind"
)

// Options say what a Builder's profile has besides stacks.
type Options struct {
	Kind     kind.Kind     // says which values samples have
	Count    bool          // the first value of a sample, Samples, is how many were taken of it
	Period   int64         // between two samples, in the unit of the first value
	Time     time.Time     // of the collection
	Duration time.Duration // that was collected; 0 if not known
	Series   string        // distinguishes profiles of other labels, which may have equal times
	Clock    *Clock        // makes the times of profiles unique; nil: not
	Stacks   int           // as many as that will come, as far as is known
}

// Samples is the type of the value, in CountUnit, that says how many samples were taken of a stack, as in the profiles
// of Go.
const (
	Samples   = "samples"
	CountUnit = "count"
)

// IsCount reports whether values of a type say how many samples were taken.
func IsCount(t *profile.ValueType) bool { return t.Type == Samples && t.Unit == CountUnit }

// WithoutCount returns a profile without the number of samples that a Builder with Options.Count has written. What is
// in it belongs to p.
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

// Builder collects the stacks of one target into a profile, all of them whole. It is not safe for
// concurrent use.
type Builder struct {
	opts   Options
	values []kind.Value // of samples

	known   map[*Location]*profile.Location // every location added
	same    map[locationKey]*location       // by content
	frames  int                             // of all samples
	samples map[sampleKey]*profile.Sample   // by stack and labels
	largest map[*profile.Sample]int64       // value of a sample, see Largest
	out     *out

	stack []*profile.Location // scratch of Add
	key   []byte              // scratch of Add
}

// sampleKey stands for a stack and its labels: their hash, as the stacks themselves, of which a recording may have
// hundreds of thousands, are in the profile already. No two have the same.
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

// Add adds value, which is in the unit of the kind's first value, to the sample with this stack, leaf first, and these
// labels.
// Labels in another order make another sample. A value below 1 is ignored, since
// Pyroscope would drop the sample. A stack without frames gets the frame [unknown].
//
// Neither stack nor labels are kept, but the Locations are.
func (b *Builder) Add(stack []*Location, value int64, labels []Label) {
	b.AddAt(nil, stack, Weight{value, 1, value}, labels)
}

// Weight is what was sampled of a stack.
type Weight struct {
	Value   int64 // of all samples, in the unit of the kind's first value
	Samples int64 // that were taken
	Largest int64 // value of one of them
}

// AddAt is Add for samples that were taken at known times, ns since 1970, see Timestamp.
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
		s = b.out.add(b.stack, labels)
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

// noteLargest notes the largest value of a sample, to which w was added, unless each has the period.
func (b *Builder) noteLargest(s *profile.Sample, w Weight) {
	if !b.opts.Kind.IsPeriodic() || w.Value != w.Samples*b.opts.Period {
		b.largest[s] = max(b.largest[s], w.Largest)
	}
}

// Frames returns how many frames the distinct samples have.
func (b *Builder) Frames() int { return b.frames }

// Forget gives up the Locations that were added, but not what was added of them: equal ones count as the same.
func (b *Builder) Forget() { clear(b.known) }

// resolve sets b.stack to the distinct locations of stack, and b.key to what
// distinguishes a sample from others.
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

// Profile returns the finished profile, nil if nothing was added. It belongs to the
// caller, and the Builder must not be used again.
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

// appendText appends s so that no two sequences of strings give the same bytes.
func appendText(to []byte, s string) []byte {
	to = binary.AppendUvarint(to, uint64(len(s)))
	return append(to, s...)
}
