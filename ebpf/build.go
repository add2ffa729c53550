package ebpf

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/jit"
	"github.com/headwater/headwater/ebpf/target"
)

const (
	kernelFile      = "[kernel.kallsyms]" // perf's name for it
	jitFile         = "[jit]"             // code that a just-in-time compiler made and told perf of
	unknownFunction = "[unknown]"         // code outside any file
)

// namer turns frames into locations, each once while it lives, those of a target at once.
type namer struct {
	tracker    *process.Tracker
	symbolizer *symbol.Symbolizer
	jit        *jit.Processes

	locations map[namedFrame]userLocation
	kernel    map[kernelAddress]*pprof.Location
	pseudo    map[string]*pprof.Location
	mappings  map[mappingKey]*pprof.Mapping
	objects   map[uint32]*symbol.Object
	counts    symbolCounts

	unnamed       map[uint32]uint64 // frames without a name, by executable
	unknownKernel bool              // an address in the kernel had no name
}

// namedFrame is a frame and how its name is to be shown.
type namedFrame struct {
	kernel.Frame
	demangle symbol.DemangleMode
	inline   bool
	pid      uint32 // of frames outside of any file
}

func keyOf(f kernel.Frame, pid uint32, o Options) namedFrame {
	f.Flags &= kernel.ReturnAddress // how the frame was found changes nothing
	key := namedFrame{Frame: f, demangle: o.Demangle, inline: o.InlineFrames}
	if f.Exe == 0 {
		key.pid = pid
	}
	return key
}

type kernelAddress struct {
	addr     uint64
	returned bool // a return address
}

type mappingKey struct {
	file  string
	exe   uint32
	start uint64
}

// symbolCounts counts the frames of one target by how well they are named.
type symbolCounts struct{ known, unknown, noModule uint64 }

func newNamer(t *process.Tracker, s *symbol.Symbolizer, j *jit.Processes) *namer {
	return &namer{
		tracker:    t,
		symbolizer: s,
		jit:        j,
		locations:  map[namedFrame]userLocation{},
		kernel:     map[kernelAddress]*pprof.Location{},
		pseudo:     map[string]*pprof.Location{},
		mappings:   map[mappingKey]*pprof.Mapping{},
		objects:    map[uint32]*symbol.Object{},
		unnamed:    map[uint32]uint64{},
	}
}

// profiles names what a target did.
func (n *namer) profiles(c *targetCounts, a *aggregate, clock *pprof.Clock) []Profile {
	b := pprof.NewBuilder(pprof.Options{Period: int64(a.period), Time: a.ended, Duration: a.ended.Sub(a.begun), Series: series(c.target.Labels()), Clock: clock})
	n.meet(c, a.options)
	var locations []*pprof.Location
	for _, s := range c.stacks {
		locations = n.stack(locations[:0], &s.stack, a.options)
		b.Add(locations, int64(s.count)*int64(a.period), labels(&s.stack, a.options))
	}
	return describe(b, c, a)
}

// meet names the addresses that are new, in their order: what one is named by lies
// beside what its neighbours are, and so is read once.
func (n *namer) meet(c *targetCounts, o Options) {
	var fresh []namedFrame
	for _, s := range c.stacks {
		for _, f := range s.user {
			key := keyOf(f, s.pid, o)
			if _, known := n.locations[key]; !known {
				n.locations[key] = userLocation{}
				fresh = append(fresh, key)
			}
		}
	}
	slices.SortFunc(fresh, func(a, b namedFrame) int {
		return cmp.Or(cmp.Compare(a.Exe, b.Exe), cmp.Compare(a.Address, b.Address))
	})
	for _, key := range fresh {
		n.locations[key] = n.newLocation(key)
	}
}

// series is what a receiver will know of labels: reserved ones are not sent.
func series(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name == target.LabelName || !strings.HasPrefix(name, "__") {
			fmt.Fprintf(&b, "%q=%q,", name, labels[name])
		}
	}
	return b.String()
}

// describe adds to the profiles what the stacks do not say. When a target's
// stacks were split over several profiles, the first carries the counts.
func describe(b *pprof.Builder, c *targetCounts, a *aggregate) []Profile {
	var out []Profile
	for i, p := range b.Profiles() {
		profile := Profile{Labels: c.target.Labels(), Pprof: p}
		if i == 0 {
			profile.count(c)
		}
		out = append(out, profile)
	}
	return out
}

func (p *Profile) count(c *targetCounts) {
	for _, process := range c.processes {
		p.Samples += process.Samples
		p.WithUser += process.WithUser
		p.Complete += process.Complete
		p.Processes = append(p.Processes, *process)
	}
	slices.SortFunc(p.Processes, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.PID, b.PID))
	})
}

func labels(s *stack, o Options) []pprof.Label {
	var out []pprof.Label
	if o.Comm.inLabels() {
		out = append(out, pprof.Label{Key: "comm", Text: s.comm})
	}
	if o.PIDLabel {
		out = append(out, pprof.Label{Key: "pid", Text: strconv.FormatUint(uint64(s.pid), 10)})
	}
	return out
}

// stack appends the locations of a stack, leaf first: kernel, user, why the
// user part ends early, the process's name.
func (n *namer) stack(out []*pprof.Location, s *stack, o Options) []*pprof.Location {
	for i, addr := range s.kernel {
		out = append(out, n.kernelLocation(kernelAddress{addr, i > 0}))
	}
	for _, f := range s.user {
		out = append(out, n.location(f, s.pid, o))
	}
	if hasUserPart(s.outcome) && !s.outcome.Complete() {
		out = append(out, n.pseudoLocation(n.incomplete(s)))
	}
	if o.Comm.inFrames() {
		out = append(out, n.pseudoLocation(s.comm))
	}
	return out
}

// incomplete names the reason why a stack ends early, and the binary.
func (n *namer) incomplete(s *stack) string {
	reason := s.outcome.String()
	if len(s.user) == 0 {
		return "[incomplete: " + reason + "]"
	}
	e := n.tracker.Executable(s.user[len(s.user)-1].Exe)
	if e == nil {
		return "[incomplete: " + reason + "]"
	}
	return "[incomplete: " + reason + " in " + path.Base(e.Path) + "]"
}

func (n *namer) kernelLocation(at kernelAddress) *pprof.Location {
	l := n.kernel[at]
	if l == nil {
		f := n.symbolizer.Kernel(at.addr, at.returned)
		n.unknownKernel = n.unknownKernel || f.Kind == symbol.Unknown
		l = &pprof.Location{Mapping: n.fileMapping(kernelFile), Address: symbol.CodeAddress(at.addr, at.returned), Lines: []pprof.Line{{Function: f.Function, File: f.File}}}
		n.kernel[at] = l
	}
	n.counts.known++
	return l
}

// pseudoLocation is a frame that is no code.
func (n *namer) pseudoLocation(name string) *pprof.Location {
	l := n.pseudo[name]
	if l == nil {
		l = &pprof.Location{Lines: []pprof.Line{{Function: name}}}
		n.pseudo[name] = l
	}
	return l
}

func (n *namer) location(f kernel.Frame, pid uint32, o Options) *pprof.Location {
	l := n.locations[keyOf(f, pid, o)]
	switch {
	case l.Mapping == nil:
		n.counts.noModule++
	case l.named:
		n.counts.known++
	default:
		n.counts.unknown++
		n.unnamed[f.Exe]++
	}
	return l.Location
}

// userLocation is a location, and whether its function is known.
type userLocation struct {
	*pprof.Location
	named bool
}

func (n *namer) newLocation(f namedFrame) userLocation {
	returned := f.Flags&kernel.ReturnAddress != 0
	if e := n.tracker.Executable(f.Exe); e != nil && e.IsCode() {
		return n.codeLocation(e, f, returned)
	}
	object := n.object(f.Exe)
	if object == nil {
		if l, ok := n.jitLocation(f, returned); ok {
			return l
		}
		return userLocation{Location: &pprof.Location{Address: f.Address, Lines: []pprof.Line{{Function: unknownFunction}}}}
	}
	l := userLocation{Location: &pprof.Location{Mapping: n.mapping(f.Frame), Address: symbol.CodeAddress(f.Address, returned)}, named: true}
	frames := n.symbolizer.Frames(object, f.Address, returned)
	if !f.inline {
		frames = frames[len(frames)-1:] // the function that the code lies in
	}
	for _, frame := range frames {
		line := pprof.Line{Function: frame.Function, File: frame.File, Line: int64(frame.Line)}
		if name := f.demangle.Apply(frame.Function); name != frame.Function {
			line.Function, line.SystemName = name, frame.Function
		}
		l.Lines = append(l.Lines, line)
		l.named = l.named && frame.Kind != symbol.Unknown
	}
	return l
}

// codeLocation names code that a Java VM made: as the VM does, or else as a map of the
// process does.
func (n *namer) codeLocation(e *process.Executable, f namedFrame, returned bool) userLocation {
	addr, name := e.CodeName(symbol.CodeAddress(f.Address, returned))
	line := pprof.Line{Function: name}
	if name == "" {
		frame, ok := n.jit.Frame(e.PID, addr)
		if line = (pprof.Line{Function: frame.Function, File: frame.File, Line: int64(frame.Line)}); !ok {
			line.Function = unknownFunction
		}
	}
	return userLocation{Location: &pprof.Location{Mapping: n.fileMapping(jitFile), Address: addr, Lines: []pprof.Line{line}}, named: line.Function != unknownFunction}
}

// jitLocation names code that a just-in-time compiler made.
func (n *namer) jitLocation(f namedFrame, returned bool) (l userLocation, ok bool) {
	at := symbol.CodeAddress(f.Address, returned)
	frame, ok := n.jit.Frame(f.pid, at)
	if !ok {
		return userLocation{}, false
	}
	line := pprof.Line{Function: frame.Function, File: frame.File, Line: int64(frame.Line)}
	return userLocation{Location: &pprof.Location{Mapping: n.fileMapping(jitFile), Address: at, Lines: []pprof.Line{line}}, named: true}, true
}

// object is an executable as the symbolizer knows it.
func (n *namer) object(exe uint32) *symbol.Object {
	o, ok := n.objects[exe]
	if !ok {
		if e := n.tracker.Executable(exe); e != nil {
			o = &symbol.Object{ID: e.ID, Path: e.Path, BuildID: e.BuildID, Root: e.Root, Open: e.Open}
		}
		n.objects[exe] = o
	}
	return o
}

// mapping is the segment that a frame of an executable lies in, as linked.
func (n *namer) mapping(f kernel.Frame) *pprof.Mapping {
	e := n.tracker.Executable(f.Exe)
	if e == nil {
		return n.fileMapping(unknownFunction)
	}
	segment, ok := e.Segment(f.Address)
	if !ok {
		return n.fileMapping(e.Path)
	}
	key := mappingKey{file: e.Path, exe: f.Exe, start: segment.Vaddr}
	m := n.mappings[key]
	if m == nil {
		m = &pprof.Mapping{File: e.Path, BuildID: e.BuildID, Start: segment.Vaddr, Limit: segment.Vaddr + segment.Memsz, Offset: segment.Offset}
		n.mappings[key] = m
	}
	return m
}

// fileMapping is a mapping that nothing but the name is known of.
func (n *namer) fileMapping(file string) *pprof.Mapping {
	key := mappingKey{file: file}
	m := n.mappings[key]
	if m == nil {
		m = &pprof.Mapping{File: file}
		n.mappings[key] = m
	}
	return m
}
