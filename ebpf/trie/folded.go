package trie

import (
	"encoding/binary"
	"math/bits"
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
	places     []place
	sets       []set
	nodes      int // of all sets
}

// place is a frame at a line.
type place struct {
	frame unique.Handle[frame]
	line  int64
}

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
	w := folder{Builder: NewBuilder(show), numbers: map[position]uint32{}, sets: map[string]*setSamples{},
		known: newPerLocation[uint32](p)}
	w.beginProfile(p)
	f := &Folded{sampleType: *p.SampleType[index]}
	for _, s := range p.Sample {
		if value := s.Value[index]; value != 0 {
			f.scale = commonDivisor(f.scale, value)
			w.add(s, value)
		}
	}
	f.scale = max(1, f.scale, -f.scale)
	f.places = slices.Clip(slices.Clone(w.places))
	for _, s := range w.order {
		f.sets = append(f.sets, s.fold(f))
	}
	return f, nil
}

// folder collects the samples of a profile.
type folder struct {
	*Builder // has the frames
	places   []place
	numbers  map[position]uint32 // of places
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
		number, ok := w.numbers[p]
		if !ok {
			number = uint32(len(w.places))
			w.numbers[p] = number
			w.places = append(w.places, place{w.frames[p.frame], p.line})
		}
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
	const perPlace, perSet = 60, 200
	size := int64(len(f.places)) * perPlace
	for i := range f.sets {
		size += perSet + int64(len(f.sets[i].nodes))
	}
	return size
}

// Nodes returns the number of nodes.
func (f *Folded) Nodes() int { return f.nodes }

// Frame is what is known of a frame.
type Frame struct{ Name, File, Binary, BuildID string }

// Choice says what of a Folded is added. The zero value means all.
type Choice struct {
	// Sample says which samples are added, by their labels and the name of their outermost frame; nil: all.
	Sample func(labels *profile.Sample, outermost string) bool
	// With has conditions, for each of which a stack must have a frame; Without is one that no frame of it may meet.
	With    []func(Frame) bool
	Without func(Frame) bool
	// Root names a frame that is added as the outermost one; nil: there is none.
	Root func(labels *profile.Sample) string
}

// maxConditions is how many conditions a Choice may have together.
const maxConditions = 8

// flat is what a Folded has, or a part of it, node by node.
type flat struct {
	places []place
	nodes  []flatNode // a parent comes before its children; the first is the root
	labels []*profile.Sample
	path   []uint32 // scratch: nodes on the way from the root
}

type flatNode struct {
	parent, place uint32
	self, total   int64
}

// read makes f what a choice has of a Folded.
func (f *flat) read(of *Folded, c Choice) {
	f.places, f.labels = append(f.places[:0], of.places...), f.labels[:0]
	f.nodes = append(slices.Grow(f.nodes[:0], 1+of.nodes), flatNode{})
	conditions := c.conditionsOf(of)
	for i := range of.sets {
		s := &of.sets[i]
		before := len(f.nodes)
		kept := f.readSet(s, of, c, conditions)
		if kept {
			f.labels = append(f.labels, s.labels)
		} else {
			f.nodes = f.nodes[:before]
		}
	}
	for i := len(f.nodes) - 1; i >= 0; i-- {
		n := &f.nodes[i]
		n.total += n.self
		if i > 0 {
			f.nodes[n.parent].total += n.total
		}
	}
}

// readSet appends the nodes of a set, and reports whether any sample of it is chosen.
func (f *flat) readSet(s *set, of *Folded, c Choice, conditions *conditions) (any bool) {
	top := uint32(0)
	if c.Root != nil {
		name := c.Root(s.labels)
		root := frame{name: name, kind: KindOf(nil, name, false)}
		f.places = append(f.places, place{frame: unique.Make(root)})
		top = f.append(0, uint32(len(f.places)-1))
	}
	if s.self != 0 && conditions.none() && (c.Sample == nil || c.Sample(s.labels, "")) {
		f.nodes[top].self += s.self * of.scale
		any = true
	}
	f.path = append(f.path[:0], top)
	keep := true
	for r := (reader{s.nodes}); len(r.data) > 0; {
		first := r.unsigned()
		f.path = f.path[:len(f.path)-int(first>>1)]
		number := uint32(r.unsigned())
		at := f.append(f.path[len(f.path)-1], number)
		if len(f.path) == 1 && c.Sample != nil {
			keep = c.Sample(s.labels, of.places[number].frame.Value().name)
		}
		f.path = append(f.path, at)
		conditions.enter(len(f.path)-1, number)
		if first&1 == 0 {
			continue
		}
		if value := r.signed(); keep && conditions.met(len(f.path)-1) {
			f.nodes[at].self = value * of.scale
			any = true
		}
	}
	return any
}

func (f *flat) append(parent, place uint32) uint32 {
	f.nodes = append(f.nodes, flatNode{parent: parent, place: place})
	return uint32(len(f.nodes) - 1)
}

// reader reads what appendStack wrote.
type reader struct{ data []byte }

func (r *reader) unsigned() uint64 {
	if r.data[0] < 0x80 { // nearly always
		n := uint64(r.data[0])
		r.data = r.data[1:]
		return n
	}
	n, size := binary.Uvarint(r.data)
	r.data = r.data[size:]
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.data)
	r.data = r.data[size:]
	return n
}

// conditions follows which conditions of a Choice the frames of a stack meet. nil: there are none.
type conditions struct {
	of     []uint16 // by place, a bit for each that it meets
	want   uint16   // bits that a stack must have
	refuse uint16   // and the one that it must not have
	path   []uint16 // by depth, what the frames so far meet
}

// conditionsOf looks at each place once.
func (c *Choice) conditionsOf(of *Folded) *conditions {
	if len(c.With) == 0 && c.Without == nil {
		return nil
	}
	out := &conditions{of: make([]uint16, len(of.places)), want: 1<<min(len(c.With), maxConditions) - 1}
	if c.Without != nil {
		out.refuse = 1 << maxConditions
	}
	for i, p := range of.places {
		f := p.frame.Value()
		about := Frame{Name: f.name, File: f.file, Binary: f.mapping.file, BuildID: f.mapping.buildID}
		for bit, has := range c.With {
			if has(about) {
				out.of[i] |= 1 << bit
			}
		}
		if c.Without != nil && c.Without(about) {
			out.of[i] |= out.refuse
		}
	}
	return out
}

func (c *conditions) none() bool { return c == nil || c.want == 0 }

// enter notes the frame at a depth, from 1 on.
func (c *conditions) enter(depth int, place uint32) {
	if c == nil {
		return
	}
	for len(c.path) <= depth {
		c.path = append(c.path, 0)
	}
	c.path[depth] = c.path[depth-1] | c.of[place]
}

// met reports whether the stack down to a depth meets them.
func (c *conditions) met(depth int) bool {
	return c == nil || c.path[depth]&c.want == c.want && c.path[depth]&c.refuse == 0
}

// Added is what was added of a Folded.
type Added struct {
	Total  int64             // value of the samples
	Labels []*profile.Sample // have the labels of the samples
}

// Grow makes room for nodes in an empty b, which is faster than one by one. It is outside the heap; who has no more use
// for b calls Release. One of parts of stacks makes room when it must: what has one function is as a rule a small part
// of all.
func (b *Builder) Grow(nodes int) {
	nodes++ // the root
	if len(b.nodes) > 1 || b.part != nil || nodes <= cap(b.nodes) {
		return
	}
	b.Release()
	slots := 1 << bits.Len(uint(2*nodes))
	b.room = newRoom(b, bytesOf[node](nodes)+bytesOf[uint32](slots)+bytesOf[uint32](nodes)+bytesOf[uint32](nodes+1))
	b.nodes = take[node](&b.room, nodes)[:1]
	b.edges.table = take[uint32](&b.room, slots)
	b.scratch.children, b.begins = take[uint32](&b.room, nodes), take[uint32](&b.room, nodes+1)
}

// Release gives back the memory of nodes, and makes b empty.
func (b *Builder) Release() {
	b.Reset()
	b.nodes, b.edges, b.scratch = make([]node, 1), edges{}, scratch{}
	b.room.release()
}

// AddFolded adds what is chosen of a Folded. It must have the sample type of what b has, which must not compare. Names
// are those that were shown when it was folded. What it returns is the caller's until the next call.
func (b *Builder) AddFolded(of *Folded, c Choice) (added Added, err error) {
	if b.sampleType, err = sameType(b.sampleType, of.sampleType); err != nil {
		return added, err
	}
	f := &b.flat
	f.read(of, c)
	added = Added{Total: f.nodes[0].total, Labels: f.labels}
	b.scratch.frames = grown(b.scratch.frames, len(f.places))
	frames := b.scratch.frames
	for i := range f.places {
		frames[i] = b.frameOf(f.places[i].frame)
	}
	if b.part != nil {
		b.addStacks(f, frames)
		return added, nil
	}
	b.scratch.nodes = grown(b.scratch.nodes, len(f.nodes))
	at := b.scratch.nodes
	at[0] = 0
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.total == 0 && n.self == 0 {
			continue
		}
		if i > 0 {
			at[i] = b.child(at[n.parent], position{frames[n.place], f.places[n.place].line})
		}
		if n.self != 0 {
			b.count(at[i], n.self)
		}
	}
	return added, nil
}

// scratch is memory that a Builder takes again and again.
type scratch struct {
	frames, nodes    []uint32 // of AddFolded
	children, begins []uint32 // of children

	sameFrame, kindOf, frameIDs, functionIDs []uint32 // of sum
	byFrame, byFunction                      []tallied
}

// grown returns a slice of n numbers, whatever they are, in the memory of another if there is room.
func grown(of []uint32, n int) []uint32 {
	if cap(of) < n {
		return make([]uint32, n, n+n/8)
	}
	return of[:n]
}

// addStacks adds each stack, for a builder of parts of them.
func (b *Builder) addStacks(f *flat, frames []uint32) {
	for i := range f.nodes {
		if f.nodes[i].self == 0 {
			continue
		}
		b.stack = b.stack[:0]
		for at := uint32(i); at != 0; at = f.nodes[at].parent {
			b.stack = append(b.stack, position{frames[f.nodes[at].place], f.places[f.nodes[at].place].line})
		}
		slices.Reverse(b.stack)
		b.addStack(b.stack, f.nodes[i].self)
	}
}

// EachOutermost passes what is chosen of f by labels and outermost frame, whose name is "" for samples without frames.
func (f *Folded) EachOutermost(c Choice, visit func(labels *profile.Sample, outermost string, value int64)) {
	c.Root = nil
	var all flat
	for i := range f.sets {
		all.read(&Folded{sampleType: f.sampleType, scale: f.scale, places: f.places, sets: f.sets[i : i+1]}, c)
		for at := range all.nodes {
			n := &all.nodes[at]
			switch {
			case at == 0 && n.self != 0:
				visit(f.sets[i].labels, "", n.self)
			case at > 0 && n.parent == 0 && n.total != 0:
				visit(f.sets[i].labels, f.places[n.place].frame.Value().name, n.total)
			}
		}
	}
}
