package trie

import (
	"encoding/binary"
	"slices"
	"unique"

	"github.com/google/pprof/profile"
)

// Folded is what a profile has, in a form that takes a few bytes a node and is added to a Builder, or to Sums, in a
// fraction of the time that the profile takes. It keeps the labels of samples. It does not change, and is safe for
// concurrent use. Frames are shared with all others that have them.
type Folded struct {
	sampleType profile.ValueType
	scale      int64 // all values are in multiples of it
	table
	sets  []set
	nodes int // of all sets
}

// table is what stacks are made of: places, and the frames of these, both by their numbers.
type table struct {
	frames []sharedFrame
	places []position
}

// frame returns the frame of a place.
func (t *table) frame(place uint32) sharedFrame { return t.frames[t.places[place].frame] }

// set is what the samples with the same labels have.
type set struct {
	labels *profile.Sample // has these labels, and nothing else
	// nodes has the nodes in preorder. Each is a number that says by its lowest bit whether samples end in it, and by
	// the others how many levels its parent is above the node before it; the number of its place; and, if samples end
	// in it, their value. The node before the first is the root.
	nodes []byte
	self  int64 // of samples without a frame
}

// Fold returns what a profile has of its default sample type. Functions are called what show returns for their names,
// if it is not nil.
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
			w.add(s, value)
		}
	}
	f.scale = max(1, f.scale, -f.scale)
	f.table = table{slices.Clip(slices.Clone(w.index.frames.values)), slices.Clip(slices.Clone(w.places.values))}
	for _, s := range w.order {
		f.sets = append(f.sets, s.fold(f))
	}
	return f, nil
}

// folder collects the samples of a profile.
type folder struct {
	*Builder // has the frames
	places   numbering[position]
	known    *perLocation[uint32]
	sample   []uint32 // scratch of add: places, root first
	sets     map[string]*setSamples
	order    []*setSamples
	key      []byte
}

// setSamples are the samples of a set.
type setSamples struct {
	labels *profile.Sample
	stacks []valuedStack
}

// valuedStack is a stack as numbers of places, root first.
type valuedStack struct {
	places []uint32
	value  int64
}

func (w *folder) add(s *profile.Sample, value int64) {
	w.sample = w.sample[:0]
	for _, l := range slices.Backward(s.Location) {
		w.sample = append(w.sample, w.numbersOf(l)...)
	}
	set := w.setOf(s)
	set.stacks = append(set.stacks, valuedStack{slices.Clone(w.sample), value})
}

// numbersOf returns the places of a location, outermost function first.
func (w *folder) numbersOf(l *profile.Location) []uint32 {
	numbers := w.known.of(l)
	if *numbers != nil {
		return *numbers
	}
	for _, p := range w.positions(l) {
		number, _ := w.places.number(p)
		*numbers = append(*numbers, number)
	}
	return *numbers
}

// setOf returns the set of a sample's labels.
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

// appendLabels appends what distinguishes the labels of a sample.
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

// fold encodes the stacks: in their order, each begins as the one before it does.
func (s *setSamples) fold(f *Folded) set {
	slices.SortFunc(s.stacks, func(x, y valuedStack) int { return slices.Compare(x.places, y.places) })
	out := set{labels: s.labels}
	var before []uint32
	for i := 0; i < len(s.stacks); {
		stack, value := s.stacks[i].places, int64(0)
		for ; i < len(s.stacks) && slices.Equal(s.stacks[i].places, stack); i++ {
			value += s.stacks[i].value
		}
		if len(stack) == 0 {
			out.self = value / f.scale
			continue
		}
		out.nodes = appendStack(out.nodes, before, stack, value/f.scale)
		f.nodes += len(stack) - common(before, stack)
		before = stack
	}
	out.nodes = slices.Clip(out.nodes)
	return out
}

// appendStack appends the nodes of a stack that the one before it has not.
func appendStack(to []byte, before, stack []uint32, value int64) []byte {
	shared := common(before, stack)
	up := uint64(len(before) - shared)
	for depth := shared; depth < len(stack); depth++ {
		isLeaf := depth == len(stack)-1
		first := up << 1
		if isLeaf {
			first |= 1
		}
		to = binary.AppendUvarint(to, first)
		to = binary.AppendUvarint(to, uint64(stack[depth]))
		if isLeaf {
			to = binary.AppendVarint(to, value)
		}
		up = 0
	}
	return to
}

// common returns how many places two stacks have in common, from the root on.
func common(x, y []uint32) int {
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// Size returns about how many bytes f takes. Most of its frames are those of others, too: a fifth of each is counted.
func (f *Folded) Size() int64 {
	const perPlace, perFrame, perSet = 8, 52, 200
	size := int64(len(f.places))*perPlace + int64(len(f.frames))*perFrame
	for i := range f.sets {
		size += perSet + int64(len(f.sets[i].nodes))
	}
	return size
}

// Nodes returns the number of nodes.
func (f *Folded) Nodes() int { return f.nodes }

// Frames returns the number of frames.
func (f *Folded) Frames() int { return len(f.frames) }

// Grow makes room for nodes and their frames in an empty b, which is faster than little by little. One of parts of
// stacks makes room when it must: what has one function is as a rule a small part of all.
func (b *Builder) Grow(nodes, frames int) {
	if len(b.nodes) > 1 || b.part != nil {
		return
	}
	if nodes++; nodes > len(b.space) { // with the root
		b.makeRoom(nodes)
	}
	b.edges.grow(b, nodes/edgesShare)
	b.index.grow(frames)
}

// How many nodes there is room for: at least, and in pages that come at once.
const (
	minNodes  = 32
	nodesStep = 8192
)

// edgesShare is which part of nodes is in edges, about.
const edgesShare = 3

// extend makes room for more nodes.
func (b *Builder) extend() {
	if len(b.nodes) >= len(b.space) {
		b.makeRoom(max(minNodes, 2*len(b.nodes)))
	} else {
		b.nextStep()
	}
}

// nextStep lets nodes have the pages of the next of them.
func (b *Builder) nextStep() {
	b.nodes = b.space[:len(b.nodes):min(len(b.nodes)+nodesStep, len(b.space))]
	populate(&b.room, b.nodes[len(b.nodes):cap(b.nodes)])
}

// makeRoom moves the nodes to where there is room for that many.
func (b *Builder) makeRoom(nodes int) {
	old, before := b.room, b.nodes
	b.room = newRoom(b, bytesOf[node](nodes)+bytesOf[uint32](nodes)+bytesOf[uint32](nodes+1))
	b.space = take[node](&b.room, nodes)
	b.nodes = b.space[:copy(b.space, before)]
	b.nextStep()
	b.scratch.children, b.begins = take[uint32](&b.room, nodes), take[uint32](&b.room, nodes+1)
	old.release()
}

// Release makes b empty, and gives back the memory of nodes. Who has no more use for b, which may have had many, calls
// it: they are outside the heap, and the garbage collector does not know how much that is.
func (b *Builder) Release() {
	b.Reset()
	b.nodes, b.space, b.scratch.children, b.begins = make([]node, 1), nil, nil, nil
	b.room.release()
	b.edges.release()
	b.scratch.sum.release()
}

// AddFolded adds what is chosen of a Folded. It must have the sample type of what b has, which must not compare. Names
// are those that were shown when it was folded.
func (b *Builder) AddFolded(of *Folded, c Choice) (added Added, err error) {
	if b.sampleType, err = sameType(b.sampleType, of.sampleType); err != nil {
		return added, err
	}
	if b.part != nil {
		return of.walk(c, &partWalker{placeNumbers: placeNumbers{Builder: b}}), nil
	}
	return of.walk(c, &nodeWalker{placeNumbers: placeNumbers{Builder: b}}), nil
}

// placeNumbers number the frames of places when they are needed.
type placeNumbers struct {
	*Builder
	table   table
	numbers []uint32 // of the Builder's frames and one, by frame; 0: not known yet
}

func (p *placeNumbers) begin(t table) {
	p.scratch.frames = grown(p.scratch.frames, len(t.frames))
	p.table, p.numbers = t, p.scratch.frames
	clear(p.numbers)
}

func (p *placeNumbers) positionOf(at uint32) position {
	of := p.table.places[at]
	if p.numbers[of.frame] == 0 {
		p.numbers[of.frame] = p.index.frame(p.table.frames[of.frame]) + 1
	}
	return position{p.numbers[of.frame] - 1, of.line}
}

// nodeWalker adds stacks to a Builder.
type nodeWalker struct {
	placeNumbers
	path []uint32 // nodes, by depth
}

func (w *nodeWalker) begin(t table) {
	w.placeNumbers.begin(t)
	w.path = append(w.path[:0], 0)
}

func (w *nodeWalker) enter(depth int, at uint32) {
	w.path = append(w.path[:depth], w.child(w.path[depth-1], w.positionOf(at)))
}

func (w *nodeWalker) sample(depth int, value int64) { w.count(w.path[depth], value) }

// scratch is memory that a Builder takes again and again.
type scratch struct {
	frames           []uint32 // of AddFolded
	children, begins []uint32 // of children
	sum              sumScratch

	tree  *Tree // the last one that was made
	spare *Tree // whose memory the next one takes, or nil

	files     numbering[sharedText] // in Tree.Strings
	fileTexts []int32               // their places there
	nameTexts []int32               // places of names there, by function in the Tree
}

// sharedText is a text that is in memory once, whatever has it.
type sharedText struct{ of unique.Handle[string] }

func (t sharedText) hash() uint32 { return spread(addressOf(t.of)) }

// grown returns a slice of n values, whatever they are, in the memory of another if there is room.
func grown[T any](of []T, n int) []T {
	if cap(of) < n {
		return make([]T, n, n+n/8)
	}
	return of[:n]
}
