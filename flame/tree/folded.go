package tree

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/google/pprof/profile"
)

// Folded is a profile in a compact form, with a few bytes per node. Adding it to a Merge, or to Sums, takes a fraction
// of the time of adding the profile. It keeps the labels of samples, and shares its frames with all other Foldeds. It
// does not change, and is safe for concurrent use.
type Folded struct {
	sampleType profile.ValueType
	scale      int64 // all values are multiples of it
	table
	sets  []set
	nodes int // number of nodes of all sets
}

// table holds the places and frames of stacks. Places are sorted by frame, see sharedFrame.order, and then by line.
type table struct {
	places []place
	frames int // number of frames of places
}

// eachFrame calls visit once for each frame, with its number.
func (t *table) eachFrame(visit func(number uint32, of sharedFrame)) {
	for i := range t.places {
		if p := &t.places[i]; i == 0 || p.frame != t.places[i-1].frame {
			visit(p.frame, p.of)
		}
	}
}

// place is a frame at a line.
type place struct {
	of    sharedFrame
	frame uint32 // number of the frame in the table
	line  int32
}

// set holds the samples with the same labels.
type set struct {
	labels *profile.Sample // only its labels are set
	nodes  []byte          // output of an encoder
	self   int64           // value of the samples without a frame
	total  int64           // value of all samples
}

// Fold returns a Folded of the default sample type of a profile. show, if not nil, maps the names of functions to the
// names to show.
func Fold(p *profile.Profile, show func(name string) string) (*Folded, error) {
	index, err := p.SampleIndexByName("")
	if err != nil {
		return nil, err
	}
	w := folder{Builder: NewBuilder(show), sets: map[string]*setSamples{}, known: newPerLocation[uint32](p)}
	w.beginProfile(p)
	f := &Folded{sampleType: *p.SampleType[index]}
	for _, s := range p.Sample {
		if value := s.Value[index]; value != 0 {
			f.scale = commonDivisor(f.scale, value)
			w.addSample(s, value)
		}
	}
	f.scale = max(1, f.scale, -f.scale)
	var numbers []uint32
	f.table, numbers = w.inOrder()
	for _, s := range w.order {
		f.sets = append(f.sets, s.foldSet(f, numbers))
	}
	return f, nil
}

// inOrder returns the table of all places, and their numbers in the table by number in w.
func (w *folder) inOrder() (t table, numbers []uint32) {
	order := make([]uint32, len(w.places.values)) // number in w by number in the table
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(x, y uint32) int {
		p, q := w.places.values[x], w.places.values[y]
		if p.frame == q.frame {
			return cmp.Compare(p.line, q.line)
		}
		return cmp.Compare(w.index.frameAt(p.frame).order(), w.index.frameAt(q.frame).order())
	})
	t = table{make([]place, len(order)), len(w.index.frames.values)}
	numbers = make([]uint32, len(order))
	for to, from := range order {
		p := w.places.values[from]
		t.places[to], numbers[from] = place{w.index.frameAt(p.frame), p.frame, p.line}, uint32(to)
	}
	return t, numbers
}

// folder collects the samples of a profile.
type folder struct {
	*Builder // holds the frames
	places   numbering[position]
	known    *perLocation[uint32]
	sample   []uint32 // scratch of add: numbers of places, root first
	sets     map[string]*setSamples
	order    []*setSamples
	key      []byte
}

// setSamples collects the samples of a set.
type setSamples struct {
	labels *profile.Sample
	stacks []valuedStack
}

// valuedStack is a stack of place numbers, root first, with its value.
type valuedStack struct {
	places []uint32
	value  int64
}

func (w *folder) addSample(s *profile.Sample, value int64) {
	w.sample = w.sample[:0]
	for _, l := range slices.Backward(s.Location) {
		w.sample = append(w.sample, w.numbersOf(l)...)
	}
	set := w.setOf(s)
	set.stacks = append(set.stacks, valuedStack{slices.Clone(w.sample), value})
}

// numbersOf returns the place numbers of a location, outermost function first.
func (w *folder) numbersOf(l *profile.Location) []uint32 {
	numbers := w.known.valuesOf(l)
	if *numbers != nil {
		return *numbers
	}
	for _, p := range w.positions(l) {
		number, _ := w.places.number(p)
		*numbers = append(*numbers, number)
	}
	return *numbers
}

// setOf returns the set for a sample's labels.
func (w *folder) setOf(s *profile.Sample) *setSamples {
	w.key = appendLabels(w.key[:0], s)
	set, ok := w.sets[string(w.key)]
	if !ok {
		set = &setSamples{labels: &profile.Sample{Label: s.Label, NumLabel: s.NumLabel}}
		w.sets[string(w.key)] = set
		w.order = append(w.order, set)
	}
	return set
}

// appendLabels appends an unambiguous encoding of a sample's labels.
func appendLabels(to []byte, s *profile.Sample) []byte {
	if len(s.Label)+len(s.NumLabel) == 0 {
		return to
	}
	keys := make([]string, 0, len(s.Label)+len(s.NumLabel))
	for key := range s.Label {
		keys = append(keys, key)
	}
	for key := range s.NumLabel {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		to = appendText(to, key)
		to = binary.AppendUvarint(to, uint64(len(s.Label[key])))
		for _, value := range s.Label[key] {
			to = appendText(to, value)
		}
		to = binary.AppendUvarint(to, uint64(len(s.NumLabel[key])))
		for _, value := range s.NumLabel[key] {
			to = binary.AppendVarint(to, value)
		}
	}
	return to
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// foldSet encodes the stacks, sorted so that each stack shares a prefix with the stack before. numbers holds the
// numbers of places in f, by number in the folder.
func (s *setSamples) foldSet(f *Folded, numbers []uint32) set {
	for _, stack := range s.stacks {
		for i, place := range stack.places {
			stack.places[i] = numbers[place]
		}
	}
	slices.SortFunc(s.stacks, func(x, y valuedStack) int { return slices.Compare(x.places, y.places) })
	out := set{labels: s.labels}
	var e encoder
	var before []uint32
	for i := 0; i < len(s.stacks); {
		stack, value := s.stacks[i].places, int64(0)
		for ; i < len(s.stacks) && slices.Equal(s.stacks[i].places, stack); i++ {
			value += s.stacks[i].value / f.scale
		}
		out.total += value
		if len(stack) == 0 {
			out.self = value
			continue
		}
		shared := common(before, stack)
		for depth := shared; depth < len(stack); depth++ {
			e.enter(depth+1, stack[depth], f.places[stack[depth]].frame)
		}
		e.sample(value)
		f.nodes += len(stack) - shared
		before = stack
	}
	out.nodes = slices.Clip(e.data)
	return out
}

// common returns the length of the common prefix of two stacks, root first.
func common(x, y []uint32) int {
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// Size returns the approximate size of f in bytes. It counts a fifth of each frame, as most frames are shared with
// other Foldeds.
func (f *Folded) Size() int64 {
	const perPlace, perFrame, perSet = 16, 44, 200
	size := int64(len(f.places))*perPlace + int64(f.frames)*perFrame
	for i := range f.sets {
		size += perSet + int64(len(f.sets[i].nodes))
	}
	return size
}

// Nodes returns the number of nodes.
func (f *Folded) Nodes() int { return f.nodes }

// AddFolded adds the chosen samples of a Folded. Its sample type must be the sample type of b, and b must not compare
// profiles. Functions have the names from Fold.
func (b *Builder) AddFolded(of *Folded, c Choice) (added Added, err error) {
	if b.sampleType, err = sameType(b.sampleType, of.sampleType); err != nil {
		return added, err
	}
	return of.walkSamples(c, &partWalker{Builder: b}), nil
}
