package profile

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

const (
	kernelFile      = "[kernel.kallsyms]" // as perf names it
	jitFile         = "[jit]"             // code of a just-in-time compiler that reports it to perf
	unknownFunction = "[unknown]"         // code outside any file
)

// namer turns frames into locations. Equal frames share a location.
type namer struct {
	names  *names
	places *namedPlaces // locations of earlier rounds; nil if they were named in another way

	locations map[namedFrame]userLocation
	kernel    map[kernelAddress]*pprof.Location
	pseudo    map[string]*pprof.Location
	mappings  map[mappingKey]*pprof.Mapping
	objects   map[unwind.ExeID]*symbol.Object
	frames    map[exeAddress][]symbol.Frame // frames whose names were read
	counts    symbolCounts

	placed        map[placesOf]int        // number of locations
	lines         int                     // number of lines of all placed locations
	unnamed       map[unwind.ExeID]uint64 // number of frames without a name, by executable
	unknownKernel bool                    // an address in the kernel had no name
}

// namedFrame is a frame, and how to show its name.
type namedFrame struct {
	kernel.Frame
	demangle demangle.Mode
	inline   bool
	jitNames bool   // the names that the language runtime of JIT code gives are shown
	pid      uint32 // only for frames outside any file
}

func (n *namer) keyOf(f kernel.Frame, pid uint32, o *Options) namedFrame {
	f.Flags &= kernel.ReturnAddress | kernel.Interpreted | kernel.UnnamedJIT // other flags do not change the name
	key := namedFrame{Frame: f, demangle: o.Demangle, inline: !o.NoInlinedFrames}
	if code, ok := n.codeOf(f); ok {
		key.jitNames = !o.LanguagesOff[code.Language()]
	}
	if f.Exe == 0 || f.Flags&kernel.UnnamedJIT != 0 {
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
	exe   unwind.ExeID
	start uint64
}

// symbolCounts counts the frames of one target with a name, without a name, and outside any known file.
type symbolCounts struct{ known, unknown, noModule uint64 }

func newNamer(from *names) *namer {
	return &namer{
		names:     from,
		locations: map[namedFrame]userLocation{},
		kernel:    map[kernelAddress]*pprof.Location{},
		pseudo:    map[string]*pprof.Location{},
		mappings:  map[mappingKey]*pprof.Mapping{},
		objects:   map[unwind.ExeID]*symbol.Object{},
		frames:    map[exeAddress][]symbol.Frame{},
		placed:    map[placesOf]int{},
		unnamed:   map[unwind.ExeID]uint64{},
	}
}

// placesOf is a function of an interpreter or of a JIT compiler, or the code of a process outside any file: code with
// an unbounded number of places.
type placesOf struct {
	exe  unwind.ExeID
	code unwind.CodeID
	pid  uint32
}

// Limits of the places that a round distinguishes. Frames at further places get only their function.
const (
	MaxPlaces      = 1 << 16
	maxPlacedLines = 1 << 19 // of all places together; inlined functions count as lines
)

// newPlace makes the location of a frame. If there are too many places in its function, further frames share one
// location.
func (n *namer) newPlace(key namedFrame) userLocation {
	if key.Exe != 0 && key.Code == 0 { // the places of a file are bounded
		l := n.newLocation(key)
		if n.places != nil && n.places.keeps(key.Frame) && n.frames[exeAddressOf(key.Frame)] != nil {
			n.places.putLocation(key.Frame, l)
		} else {
			n.locations[key] = l
		}
		return l
	}
	of := placesOf{key.Exe, key.Code, key.pid}
	if n.placed[of] >= MaxPlaces || n.lines >= maxPlacedLines {
		key.Vaddr, key.Flags = 0, key.Flags&^kernel.ReturnAddress
		if key.Flags&kernel.Interpreted != 0 {
			key.Vaddr = language.NoIP
		}
		if l, ok := n.locations[key]; ok {
			return l
		}
	}
	l := n.newLocation(key)
	n.placed[of]++
	n.lines += len(l.Lines)
	n.locations[key] = l
	return l
}

// readStacks reads the names of all addresses, as many as it can within the given time.
func (n *namer) readStacks(all iter.Seq[*stack], patience time.Duration) {
	n.names.readers.ended(n.names.readers.runWork(n.prefetch(all), patience))
}

// stacksOf yields the stacks of aggregates. A stack is valid until the next one.
func stacksOf(all []*aggregate) iter.Seq[*stack] {
	return func(yield func(*stack) bool) {
		for _, a := range all {
			for _, c := range a.targets {
				for s := range c.eachStack {
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

// profiles returns the profiles of a target, with names.
func (n *namer) profiles(c *targetCounts, a *aggregate, clock *pprof.Clock) []Profile {
	b := pprof.NewBuilder(pprof.Options{
		Kind: c.kind, Period: a.options.period(c.kind), Time: a.ended, Duration: a.ended.Sub(a.begun),
		Series: series(c.labels()), Clock: clock, Stacks: len(c.stacks),
	})
	n.addAll(b, c, a)
	return n.describe(b, c)
}

// addAll names the stacks of a target, and adds them to a profile.
func (n *namer) addAll(b *pprof.Builder, c *targetCounts, a *aggregate) {
	var locations []*pprof.Location
	for s, w := range c.eachStack {
		locations = n.stack(locations[:0], s, a.options)
		does := s.doing.labels(locations[:len(s.kernel)], &a.options)
		weight := pprof.Weight{Value: int64(w.value), Samples: int64(w.samples), Largest: int64(w.largest)}
		b.AddAt(s.times, locations, weight, append(a.labelsOf(s), does...))
	}
}

// prefetch returns the work to name all addresses that are not named yet: one job per executable, and one per process
// with a just-in-time compiler.
func (n *namer) prefetch(all iter.Seq[*stack]) (jobs []*work) {
	addresses := map[unwind.ExeID]map[exeAddress]bool{}
	compiled := map[uint32]map[uint64]bool{} // addresses by PID
	for s := range all {
		for _, f := range s.user {
			if pid, addr, ok := n.compiledAt(s, f); ok {
				if compiled[pid] == nil {
					compiled[pid] = map[uint64]bool{}
				}
				compiled[pid][addr] = true
			}
			if _, known := n.known(f); known || f.Flags&(kernel.Interpreted|kernel.UnnamedJIT) != 0 {
				continue
			}
			if _, ok := n.codeOf(f); ok {
				continue
			}
			if addresses[f.Exe] == nil {
				addresses[f.Exe] = map[exeAddress]bool{}
			}
			addresses[f.Exe][exeAddressOf(f)] = true
		}
	}
	for _, exe := range slices.Sorted(maps.Keys(addresses)) {
		if o := n.object(exe); o != nil {
			jobs = append(jobs, n.named(o, slices.SortedFunc(maps.Keys(addresses[exe]), exeAddress.compare)))
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(compiled)) {
		if n.names.jit.Knows(pid) {
			jobs = append(jobs, n.compiledNames(pid, slices.Collect(maps.Keys(compiled[pid]))))
		}
	}
	return jobs
}

// compiledAt returns the process and the address under which a JIT compiler may have reported the name of a frame. ok
// is false for a frame in a file.
func (n *namer) compiledAt(s *stack, f kernel.Frame) (pid uint32, addr uint64, ok bool) {
	if code, ok := n.codeOf(f); ok {
		return code.PID, code.Address(f.Lookup()), true
	}
	// s.pid is set if a frame is outside any file.
	return s.pid, f.Lookup(), s.pid != 0 && (f.Exe == 0 || f.Flags&kernel.UnnamedJIT != 0)
}

// series returns labels as text, without the reserved labels, which are not sent to receivers.
func series(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name == target.LabelName || !strings.HasPrefix(name, "__") {
			fmt.Fprintf(&b, "%q=%q,", name, labels[name])
		}
	}
	return b.String()
}

// labels returns the labels of the profile. The kind sets __name__; a target's own __name__ only holds for CPU time.
func (c *targetCounts) labels() map[string]string {
	labels := c.target.Labels()
	if c.kind != kind.CPU {
		labels[target.LabelName] = kind.Of(c.kind).Series
	}
	return labels
}

// describe returns the profile with its labels and processes, or nil if it has no samples.
func (n *namer) describe(b *pprof.Builder, c *targetCounts) []Profile {
	made := b.Profile()
	if made == nil {
		return nil
	}
	profile := Profile{Labels: c.labels(), Kind: c.kind, Pprof: made}
	n.count(&profile, c)
	return []Profile{profile}
}

// count adds the processes of a target to a profile.
func (n *namer) count(p *Profile, c *targetCounts) {
	for _, counted := range c.processes {
		process := counted.Process
		if e := n.names.executables.Executable(counted.program); e != nil {
			process.Program, process.Build = e.Path, e.Version()
		}
		p.Samples += process.Samples
		p.WithUser += process.WithUser
		p.Complete += process.Complete
		p.Processes = append(p.Processes, process)
	}
	slices.SortStableFunc(p.Processes, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.PID, b.PID))
	})
}

// stack appends the locations of a stack, leaf first: kernel frames, user frames, the reason if the user part ends
// early, and the name of the process. The reason for a guess precedes the first guessed frame.
func (n *namer) stack(out []*pprof.Location, s *stack, o Options) []*pprof.Location {
	out = n.appendKernel(out, s)
	at := guessedAt(s)
	out = n.appendFrames(out, s.user[:at], s.pid, &o)
	switch {
	case at < len(s.user):
		out = append(out, n.pseudoLocation("[guessed: frame_pointer"+n.inFile(s.user[:at])+"]"))
		out = n.appendFrames(out, s.user[at:], s.pid, &o)
	case s.outcome == unwind.Guessed: // the guessed frames were replaced by functions of a runtime
		out = append(out, n.pseudoLocation("[guessed: frame_pointer]"))
	}
	if s.outcome.HasUserPart() && !s.outcome.Complete() && s.outcome != unwind.Guessed {
		out = append(out, n.pseudoLocation("[incomplete: "+s.outcome.String()+n.inFile(s.user)+"]"))
	}
	if o.Comm.inFrames() {
		out = append(out, n.pseudoLocation(s.comm))
	}
	return out
}

// guessedAt returns the index of the first guessed frame, or the number of frames if there is none.
func guessedAt(s *stack) int {
	for i, f := range s.user {
		if i > 0 && f.Flags&kernel.FramePointer != 0 {
			return i
		}
	}
	return len(s.user)
}

// inFile returns " in " and the name of the binary of the outermost frame, or "" if the frame is in no known binary.
func (n *namer) inFile(frames []kernel.Frame) string {
	if len(frames) == 0 {
		return ""
	}
	e := n.names.executables.Executable(frames[len(frames)-1].Exe)
	if e == nil {
		return ""
	}
	return " in " + path.Base(e.Path)
}

func (n *namer) kernelLocation(at kernelAddress) *pprof.Location {
	l := n.kernel[at]
	if l == nil {
		f := n.names.symbolizer.Kernel(at.addr, at.returned)
		n.unknownKernel = n.unknownKernel || f.Kind == symbol.Unknown
		l = &pprof.Location{
			Mapping: n.fileMapping(kernelFile), Address: symbol.CodeAddress(at.addr, at.returned),
			Lines: []pprof.Line{lineOf(f)},
		}
		n.kernel[at] = l
	}
	n.counts.known++
	return l
}

// pseudoLocation returns a location that stands for a remark or the name of a process, not for code.
func (n *namer) pseudoLocation(name string) *pprof.Location {
	l := n.pseudo[name]
	if l == nil {
		l = &pprof.Location{Lines: []pprof.Line{{Function: name}}}
		n.pseudo[name] = l
	}
	return l
}

func (n *namer) location(f kernel.Frame, pid uint32, o *Options) *pprof.Location {
	l, ok := n.known(f)
	if !ok {
		key := n.keyOf(f, pid, o)
		if l, ok = n.locations[key]; !ok {
			l = n.newPlace(key)
		}
	}
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

// known returns the location of a frame that this round or an earlier one has named.
func (n *namer) known(f kernel.Frame) (userLocation, bool) {
	if n.places == nil {
		return userLocation{}, false
	}
	return n.places.getLocation(f)
}

// userLocation is a location in user space. named is true if its function is known.
type userLocation struct {
	*pprof.Location
	named bool
}

func (n *namer) newLocation(f namedFrame) userLocation {
	returned := f.Flags&kernel.ReturnAddress != 0
	if f.Flags&kernel.UnnamedJIT != 0 {
		if l, ok := n.jitLocation(f); ok {
			return l
		}
	}
	if f.Flags&(kernel.Interpreted|kernel.UnnamedJIT) != 0 {
		return n.functionLocation(f)
	}
	if code, ok := n.codeOf(f.Frame); ok {
		return n.codeLocation(code, f)
	}
	object := n.object(f.Exe)
	if object == nil {
		if l, ok := n.jitLocation(f); ok {
			return l
		}
		if name, ok := process.VSyscall(f.Lookup()); ok {
			l := pprof.Location{Mapping: n.fileMapping(process.VSyscallFile), Address: f.Vaddr}
			l.Lines = []pprof.Line{{Function: name}}
			return userLocation{Location: &l, named: true}
		}
		return userLocation{Location: &pprof.Location{Address: f.Vaddr, Lines: []pprof.Line{{Function: unknownFunction}}}}
	}
	l := userLocation{Location: &pprof.Location{Mapping: n.mapping(f.Frame), Address: f.Lookup()}, named: true}
	frames := n.frames[exeAddressOf(f.Frame)]
	if frames == nil { // the names are still being read, see readers
		frames = symbol.Unnamed(object, f.Vaddr, returned)
	}
	if !f.inline {
		frames = frames[len(frames)-1:] // the function with the code, without inlined functions
	}
	for _, frame := range frames {
		line := lineOf(frame)
		if name := f.demangle.Apply(frame.Function); name != frame.Function {
			line.Function, line.SystemName = name, frame.Function
		}
		l.Lines = append(l.Lines, line)
		l.named = l.named && frame.Kind != symbol.Unknown
	}
	return l
}

// lineOf converts a function to a line of a profile.
func lineOf(f symbol.Frame) pprof.Line {
	return pprof.Line{Function: f.Function, File: f.File, StartLine: int64(f.StartLine), Line: int64(f.Line)}
}

// functionLocation returns the location of a function that an interpreter runs.
func (n *namer) functionLocation(f namedFrame) userLocation {
	i, ok := n.names.executables.Interpreter(f.Exe)
	if !ok {
		return n.compiledLocation(f.Vaddr, pprof.Line{Function: unknownFunction})
	}
	fn, named := i.Function(f.Code)
	if !named {
		fn.Name = unknownFunction
	}
	lines := i.Lines(&fn, f.Lookup(), f.Flags&kernel.ReturnAddress != 0)
	if !f.inline {
		lines = lines[len(lines)-1:] // the function that was compiled, without inlined functions
	}
	l := &pprof.Location{Mapping: n.fileMapping(i.Name()), Lines: f.linesOf(lines)}
	return userLocation{Location: l, named: named}
}

// linesOf converts functions of a language to lines of a profile.
func (f *namedFrame) linesOf(lines []language.Line) (out []pprof.Line) {
	for _, l := range lines {
		out = append(out, pprof.Line{
			Function: f.demangle.ApplyToClass(l.Function), File: l.File, StartLine: int64(l.StartLine), Line: int64(l.Line),
		})
	}
	return out
}

// codeOf returns the code of a language runtime that contains a frame. The result is false if there is none.
func (n *namer) codeOf(f kernel.Frame) (*process.JITCode, bool) {
	if f.Code == 0 {
		return nil, false
	}
	return n.names.executables.JITCode(f.Exe)
}

// codeLocation returns the location of code that a language runtime compiled. It takes the name from the runtime, or
// else from the JIT names of the process.
func (n *namer) codeLocation(code *process.JITCode, f namedFrame) userLocation {
	addr := code.Address(f.Lookup())
	var lines []pprof.Line
	if f.jitNames {
		lines = f.linesOf(code.Lines(f.Code))
	}
	if len(lines) == 0 {
		line, ok := n.jitLine(f, code.PID, addr)
		if !ok {
			line.Function = unknownFunction
		}
		lines = []pprof.Line{line}
	}
	if !f.inline {
		lines = lines[len(lines)-1:] // the function with the code, without inlined functions
	}
	return n.compiledLocation(addr, lines...)
}

// jitLocation returns the location of code that a just-in-time compiler made.
func (n *namer) jitLocation(f namedFrame) (l userLocation, ok bool) {
	at := f.Lookup()
	line, ok := n.jitLine(f, f.pid, at)
	if !ok {
		return userLocation{}, false
	}
	return n.compiledLocation(at, line), true
}

// jitLine returns the JIT name that the process has reported for an address.
func (n *namer) jitLine(f namedFrame, pid uint32, at uint64) (pprof.Line, bool) {
	frame, ok := n.names.jit.Frame(pid, at)
	function := f.demangle.ApplyToClass(frame.Function)
	return pprof.Line{Function: function, File: frame.File, Line: int64(frame.Line)}, ok
}

// compiledLocation returns a location in code of a just-in-time compiler.
func (n *namer) compiledLocation(addr uint64, lines ...pprof.Line) userLocation {
	l := &pprof.Location{Mapping: n.fileMapping(jitFile), Address: addr, Lines: lines}
	return userLocation{Location: l, named: lines[0].Function != unknownFunction}
}

// object returns the result of objectOf, which it caches. It returns nil if the executable is not known.
func (n *namer) object(exe unwind.ExeID) *symbol.Object {
	o, ok := n.objects[exe]
	if !ok {
		if e := n.names.executables.Executable(exe); e != nil {
			o = objectOf(n.names.executables, e)
		}
		n.objects[exe] = o
	}
	return o
}

// objectOf converts an executable for the symbolizer.
func objectOf(x Executables, e *process.Executable) *symbol.Object {
	o := &symbol.Object{
		ID: uint32(e.ID), Path: e.Path, BuildID: e.BuildID, Owner: ownerOf(e.Root), Root: e.Root, Open: e.Open,
	}
	if s := x.Source(e); s.ID != e.ID {
		o.Source = &symbol.Object{
			ID: uint32(s.ID), Path: s.Path, BuildID: s.BuildID, Owner: ownerOf(s.Root), Root: s.Root, Open: s.Open,
		}
	}
	return o
}

// mapping returns the mapping for the segment of a frame, at the address that it is linked at.
func (n *namer) mapping(f kernel.Frame) *pprof.Mapping {
	e := n.names.executables.Executable(f.Exe)
	if e == nil {
		return n.fileMapping(unknownFunction)
	}
	segment, ok := e.Segment(f.Vaddr)
	if !ok {
		return n.fileMapping(e.Path)
	}
	key := mappingKey{file: e.Path, exe: f.Exe, start: segment.Vaddr}
	m := n.mappings[key]
	if m == nil {
		m = &pprof.Mapping{
			File: e.Path, BuildID: e.BuildID,
			Start: segment.Vaddr, Limit: segment.Vaddr + segment.Memsz, Offset: segment.Offset,
		}
		n.mappings[key] = m
	}
	return m
}

// fileMapping returns a mapping with only a file name.
func (n *namer) fileMapping(file string) *pprof.Mapping {
	key := mappingKey{file: file}
	m := n.mappings[key]
	if m == nil {
		m = &pprof.Mapping{File: file}
		n.mappings[key] = m
	}
	return m
}
