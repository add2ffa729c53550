package pprof

import (
	"encoding/binary"
	"time"

	"github.com/google/pprof/profile"
)

// Limits of one profile, below those of a Pyroscope server with its defaults:
// 2 MB uncompressed (more is over the ingestion burst and refused for ever),
// 16,000 samples, and 1,000 locations in a stack.
const (
	maxBytes   = 1_900_000
	maxSamples = 16_000
	maxDepth   = 1_000
)

// limits are the limits of one profile. Tests make them small.
type limits struct{ bytes, samples, depth int }

// Options say what a Builder's profiles have in common.
type Options struct {
	Type     string        // of the samples' values; "" is cpu
	Unit     string        // of the samples' values; "" is nanoseconds
	Period   int64         // between two samples, in Unit
	Time     time.Time     // of the collection
	Duration time.Duration // that was collected; 0 if not known
	Series   string        // tells profiles with other labels apart, which may have equal times
	Clock    *Clock        // makes the profiles' times unique; nil: unique in this Builder only
}

// Builder collects the stacks of one target into profiles. It is not safe for
// concurrent use.
type Builder struct {
	opts   Options
	limits limits

	known   map[*Location]*location    // every location added
	same    map[locationKey]*location  // by content
	count   int                        // of them
	samples map[string]*profile.Sample // by stack and labels
	parts   []*part                    // the last one takes new samples

	stack []*location // scratch of Add
	key   []byte      // scratch of Add
	round uint64      // counts the stacks priced
}

// NewBuilder returns an empty Builder.
func NewBuilder(opts Options) *Builder {
	if opts.Type == "" {
		opts.Type = "cpu"
	}
	if opts.Unit == "" {
		opts.Unit = "nanoseconds"
	}
	if opts.Clock == nil {
		opts.Clock = &Clock{}
	}
	return &Builder{
		opts:    opts,
		limits:  limits{bytes: maxBytes, samples: maxSamples, depth: maxDepth},
		known:   map[*Location]*location{},
		same:    map[locationKey]*location{},
		samples: map[string]*profile.Sample{},
	}
}

// Add adds value to the sample with this stack, leaf first, and these labels.
// Labels in another order make another sample. A value below 1 is ignored, since
// Pyroscope would drop the sample. A stack that is too deep loses frames in its
// middle, where a frame then says how many; one without frames gets the frame
// [unknown].
//
// Neither stack nor labels are kept, but the Locations are.
func (b *Builder) Add(stack []*Location, value int64, labels []Label) {
	if value < 1 {
		return
	}
	if len(stack) == 0 {
		stack = []*Location{pseudoFrame(unnamed)}
	}
	short := shorten(stack, b.limits.depth)
	b.resolve(short, labels)
	if s := b.samples[string(b.key)]; s != nil {
		s.Value[0] += value
		return
	}
	for depth := len(short) / 2; depth > 2 && b.priceAlone(labels) > b.limits.bytes; depth /= 2 {
		b.resolve(shorten(stack, depth), labels)
		if s := b.samples[string(b.key)]; s != nil {
			s.Value[0] += value
			return
		}
	}
	b.samples[string(b.key)] = b.partFor(labels).add(b.stack, value, labels)
}

// resolve sets b.stack to the distinct locations of stack, and b.key to what
// tells a sample from others.
func (b *Builder) resolve(stack []*Location, labels []Label) {
	b.stack, b.key = b.stack[:0], b.key[:0]
	b.key = binary.AppendUvarint(b.key, uint64(len(stack)))
	for _, l := range stack {
		known := b.known[l]
		if known == nil {
			known = b.intern(l)
		}
		b.stack = append(b.stack, known)
		b.key = binary.AppendUvarint(b.key, uint64(known.id))
	}
	for _, l := range labels {
		b.key = appendText(b.key, l.Key)
		b.key = appendText(b.key, l.Text)
		b.key = binary.AppendVarint(b.key, l.Number)
		b.key = appendText(b.key, l.NumUnit)
	}
}

// intern returns the one location with the content of l.
func (b *Builder) intern(l *Location) *location {
	fresh := cleanLocation(l)
	key := fresh.key()
	known := b.same[key]
	for known != nil && !known.equal(fresh) {
		known = known.next
	}
	if known == nil {
		known = fresh
		known.id, known.next = b.count, b.same[key]
		b.same[key] = known
		b.count++
	}
	b.known[l] = known
	return known
}

// partFor returns a part with room for b.stack.
func (b *Builder) partFor(labels []Label) *part {
	if len(b.parts) > 0 {
		last := b.parts[len(b.parts)-1]
		if len(last.out.Sample) < b.limits.samples && last.size+b.price(last, labels) <= b.limits.bytes {
			return last
		}
	}
	b.parts = append(b.parts, newPart(b.opts))
	return b.parts[len(b.parts)-1]
}

// price returns an upper bound of what b.stack adds to the size of a part.
func (b *Builder) price(p *part, labels []Label) int {
	b.round++
	size := p.samplePrice(b.stack, labels)
	for _, l := range b.stack {
		if l.in != p && l.priced != b.round {
			l.priced = b.round
			size += l.price
		}
	}
	return size
}

// priceAlone returns an upper bound of the size of a profile with b.stack only.
func (b *Builder) priceAlone(labels []Label) int {
	empty := newPart(b.opts)
	return empty.size + b.price(empty, labels)
}

// Profiles returns the finished profiles, none if nothing was added. Each obeys
// Pyroscope's limits and has a time of its own. They belong to the caller, and
// the Builder must not be used again.
func (b *Builder) Profiles() []*profile.Profile {
	profiles := make([]*profile.Profile, 0, len(b.parts))
	for _, p := range b.parts {
		p.out.TimeNanos = b.opts.Clock.Unique(b.opts.Series, b.opts.Time)
		profiles = append(profiles, p.out)
	}
	return profiles
}

// appendText appends s so that no two sequences of strings give the same bytes.
func appendText(to []byte, s string) []byte {
	to = binary.AppendUvarint(to, uint64(len(s)))
	return append(to, s...)
}
