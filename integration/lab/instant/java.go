package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/headwater/headwater/integration/testkit/walks"
)

// hotspot compares with HotSpot's AsyncGetCallTrace.
type hotspot struct{}

func (hotspot) flag() string { return " -java" }

func (hotspot) compile(dir string) (string, error) {
	javac, err := exec.LookPath("javac")
	if err == nil {
		javac, err = filepath.EvalSymlinks(javac)
	}
	if err != nil {
		return "", err
	}
	include := filepath.Join(filepath.Dir(javac), "..", "include")
	return compile(dir, "agent.c", "-I"+include, "-I"+filepath.Join(include, "linux"))
}

func (hotspot) environment(library string) []string {
	return []string{"LD_PRELOAD=" + library, "JAVA_TOOL_OPTIONS=-agentpath:" + library}
}

func (hotspot) compare(all []walks.Walk, socket string, examples int) (report, error) {
	r := newJavaReport(examples)
	traces := map[uint32][]javaTrace{}
	paths, err := filepath.Glob(socket + ".*.methods")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := readJavaTraces(strings.TrimSuffix(path, ".methods"), path, traces, r); err != nil {
			return nil, err
		}
	}
	byThread := map[uint32][]walks.Walk{}
	for _, w := range all {
		byThread[w.TID] = append(byThread[w.TID], w)
	}
	for tid, list := range traces {
		slices.SortFunc(list, func(a, b javaTrace) int { return cmp.Compare(a.entered, b.entered) })
		r.thread(byThread[tid], list)
	}
	return r, nil
}

// javaFrame is a method and its line, 0 if unknown.
type javaFrame struct {
	method, file string
	line         int
}

func (f javaFrame) String() string { return fmt.Sprintf("%s %s:%d", f.method, f.file, f.line) }

// javaTrace is a stack from AsyncGetCallTrace.
type javaTrace struct {
	tid           uint32
	entered, left uint64 // start and end of the signal handler, CLOCK_MONOTONIC, ns
	pc            uint64
	code          []byte // the bytes of code at pc
	failed        int    // AsyncGetCallTrace's error: 0 or negative
	frames        []javaFrame

	undecipherable bool // the VM has no place for the first frame, and its callers may be wrong
}

// javaMethod is a method as the VM describes it.
type javaMethod struct {
	name, file string
	starts     []int // bytecode indices of the starts of lines, ascending
	lines      []int
}

// frame returns the method at a bytecode index.
func (m *javaMethod) frame(bci int) javaFrame {
	f := javaFrame{method: m.name, file: m.file}
	if bci == -1 { // before the first one
		bci = 0
	}
	for i, start := range m.starts {
		if start <= bci {
			f.line = m.lines[i]
		}
	}
	return f
}

// anonymous matches the suffix in the names of anonymous classes of VMs up to JDK 14: the hash of an object.
var anonymous = regexp.MustCompile(`[./]\d+$`)

// readJavaMethods reads the agent's file of methods.
func readJavaMethods(path string) (map[uint64]*javaMethod, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	methods := map[uint64]*javaMethod{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 4 {
			return nil, fmt.Errorf("%s: %q", path, lines.Text())
		}
		id, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return nil, err
		}
		class := anonymous.ReplaceAllString(strings.TrimSuffix(strings.TrimPrefix(fields[1], "L"), ";"), "")
		m := &javaMethod{name: strings.NewReplacer("/", ".", ".0x", "/0x").Replace(class) + "." + fields[2], file: fields[3]}
		var places [][2]int
		for _, place := range fields[4:] {
			var p [2]int
			if _, err := fmt.Sscanf(place, "%d:%d", &p[0], &p[1]); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, place, err)
			}
			places = append(places, p)
		}
		slices.SortStableFunc(places, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
		for _, p := range places {
			m.starts, m.lines = append(m.starts, p[0]), append(m.lines, p[1])
		}
		methods[id] = m
	}
	return methods, lines.Err()
}

// readJavaTraces reads struct shared of testdata/agent.c.
func readJavaTraces(path, methodsPath string, to map[uint32][]javaTrace, r *javaReport) error {
	methods, err := readJavaMethods(methodsPath)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 24)
	if _, err := io.ReadFull(f, head); err != nil {
		return err
	}
	u64 := binary.NativeEndian.Uint64
	r.Late += u64(head[8:])
	r.Dropped += u64(head[16:])
	in := bufio.NewReader(f)
	const recordHead = 9 * 8
	for {
		b := make([]byte, recordHead)
		if _, err := io.ReadFull(in, b); err != nil || u64(b) < recordHead {
			return nil // the end, or an incomplete last record
		}
		frames := make([]byte, u64(b)-recordHead)
		if _, err := io.ReadFull(in, frames); err != nil {
			return nil
		}
		t := javaTrace{
			tid: binary.NativeEndian.Uint32(b[12:]), entered: u64(b[16:]), left: u64(b[24:]), pc: u64(b[32:]),
			failed: int(int64(u64(b[48:]))), code: b[56:recordHead],
		}
		t.undecipherable = len(frames) >= 16 && int64(u64(frames[8:])) == -1
		for ; len(frames) >= 16; frames = frames[16:] {
			if m := methods[u64(frames)]; m != nil {
				t.frames = append(t.frames, m.frame(int(int64(u64(frames[8:])))))
			} else {
				t.frames = append(t.frames, javaFrame{method: unloaded})
			}
		}
		if t.left != 0 {
			to[t.tid] = append(to[t.tid], t)
		}
	}
}

// unnamed is the profiler's name for unknown code.
const unnamed = "[unknown]"

// unloaded is the name of methods that the VM no longer knew when it ended.
const unloaded = "?"

// javaReport is the result of a run.
type javaReport struct {
	Stacks  int `json:"stacks"`         // compared
	Whole   int `json:"stacks_equal"`   // in all frames
	Frames  int `json:"frames"`         // frames of methods, compared with a frame that has a name and a line
	Agreed  int `json:"frames_agreed"`  // frames that agree
	Inlined int `json:"frames_inlined"` // frames that agree and are inlined into another frame

	// Frames of the same method with an unknown line: HotSpot reports the method's first line.
	Unlined     int `json:"frames_without_line"`
	Interpreted int `json:"frames_interpreted"`              // frames that agree and are interpreted
	NoName      int `json:"frames_interpreted_without_name"` // present on both sides, but not named here
	NoCode      int `json:"frames_compiled_without_name"`    // the same for compiled frames
	Gone        int `json:"frames_unloaded"`                 // of methods that the VM no longer knows
	// Stacks that only lack inlined methods, where the profiler reports an unknown line.
	NotInlined int `json:"stacks_without_inlined"`
	// Stacks in an interpreter that is building or removing its frame: HotSpot does not report the frame.
	Entering int `json:"stacks_entering"`
	// Stacks in a stub called by Java code, compared from the caller on: HotSpot reports the place after the call.
	Stubs       int            `json:"stacks_of_stubs"`
	Differ      map[string]int `json:"stacks_differ"` // by kind of difference
	NotCompared map[string]int `json:"stacks_not_compared"`
	Late        uint64         `json:"signals_late"`
	Dropped     uint64         `json:"signals_dropped"`
	Examples    []javaExample  `json:"examples,omitempty"`

	examples int
}

// javaExample is a stack on both sides.
type javaExample struct {
	Difference string      `json:"difference"`
	Code       string      `json:"code"` // code of the leaf, in hexadecimal
	At         int         `json:"first_difference"`
	Frames     [][2]string `json:"frames"` // the profiler's, HotSpot's
}

func newJavaReport(examples int) *javaReport {
	return &javaReport{Differ: map[string]int{}, NotCompared: map[string]int{}, examples: examples}
}

func (r *javaReport) compared() int { return r.Frames }

func (r *javaReport) wrong() int { return sumCounts(r.Differ) }

// thread compares the samples and traces of one thread, both in order of time.
func (r *javaReport) thread(samples []walks.Walk, list []javaTrace) {
	m := matcher{samples: samples}
	for i := range list {
		t := &list[i]
		switch of := m.sample(t.entered, t.left); {
		case of == nil:
			r.NotCompared["no sample"]++
		case len(of.Frames) > 0 && !mayBeAt(of.Frames[0], t.pc):
			r.NotCompared["another instruction"]++
		case t.failed <= 0:
			r.NotCompared[failure(t.failed)]++
		case !of.Outcome.Complete():
			r.NotCompared["the profiler: "+of.Outcome.String()]++
		default:
			r.stack(expand(of), t)
		}
	}
}

// failure describes the error of AsyncGetCallTrace.
func failure(n int) string {
	names := map[int]string{
		0: "no Java frame", -1: "no class load event", -2: "garbage collection", -3: "unknown, not Java",
		-4: "not walkable, not Java", -5: "unknown, Java", -6: "not walkable, Java", -7: "unknown state",
		-8: "thread exit", -9: "deoptimization", -10: "safepoint",
	}
	if name := names[n]; name != "" {
		return "HotSpot: " + name
	}
	return fmt.Sprintf("HotSpot: %d", n)
}

// mayBeAt reports whether a place can be at an address of the process: files are mapped in whole pages.
func mayBeAt(p walks.Place, pc uint64) bool {
	if p.File == "" || p.IsJava() {
		return p.Address == pc
	}
	const inPage = 4096 - 1
	return p.Address&inPage == pc&inPage
}

// ourFrame is a Java frame of the profiler's.
type ourFrame struct {
	javaFrame
	returned    bool // it is in a call
	interpreted bool
	noName      bool // interpreted or compiled code with an unknown name
	compiled    bool // unnamed compiled code, which may be several frames
	inlined     bool // into the next one
}

// unlined reports whether a frame belongs to the same method, but lacks the line, or also the file. This happens for
// code that the VM freed before the profiler read it.
func (f ourFrame) unlined(theirs javaFrame) bool {
	lacksFile := f.file == "" && theirs.file != ""
	return f.line == 0 && !f.inlined && f.method == theirs.method &&
		(lacksFile || f.file == theirs.file && theirs.line != 0)
}

// expand returns the Java frames of a walk, leaf first.
func expand(w *walks.Walk) (frames []ourFrame) {
	for n, lines := range w.Lines {
		if len(lines) == 0 && w.Frames[n].IsJava() {
			frames = append(frames, ourFrame{javaFrame: javaFrame{method: unnamed}})
		}
		for i, l := range lines {
			switch {
			case l.Function == "Interpreter":
				frames = append(frames, ourFrame{interpreted: true, noName: true})
			case l.Function == "nmethod": // the VM's name for code of which the profiler read no details
				frames = append(frames, ourFrame{noName: true, compiled: true})
			case strings.Contains(l.Function, ".") && !strings.Contains(l.Function, " "): // otherwise a stub
				f := javaFrame{l.Function, l.File, l.Line}
				frames = append(frames, ourFrame{
					javaFrame: f, returned: w.Frames[n].Return, interpreted: w.Interpreted[n], inlined: i+1 < len(lines),
				})
			}
		}
	}
	return frames
}

// fitFrames compares two stacks frame by frame, and returns the index of the first difference.
func fitFrames(ours []ourFrame, theirs []javaFrame) (at int, ok bool) {
	for i := range max(len(ours), len(theirs)) {
		if i >= len(ours) || i >= len(theirs) {
			return i, false
		}
		same := ours[i].noName || ours[i].javaFrame == theirs[i] || ours[i].unlined(theirs[i])
		if !same && theirs[i].method != unloaded {
			return i, false
		}
	}
	return 0, true
}

// lacksInlined reports whether two stacks differ only by methods that were inlined into frames of ours whose line is
// unknown. A method may occur more than once.
func lacksInlined(ours []ourFrame, theirs []javaFrame) bool {
	ends := map[int]bool{0: true} // possible numbers of their frames that correspond to our frames so far
	for i := range ours {
		f, next := &ours[i], map[int]bool{}
		unlined := f.line == 0 && !f.inlined && (!f.noName || f.compiled)
		for from := range ends {
			for n := from; n < len(theirs); n++ {
				if _, ok := fitFrames(ours[i:i+1], theirs[n:n+1]); ok && (!unlined || f.compiled || theirs[n].method == f.method) {
					next[n+1] = true
				}
				if !unlined {
					break
				}
			}
		}
		ends = next
	}
	return ends[len(theirs)]
}

// leafFrames returns the number of frames in the leaf's code, including inlined ones; 0 if they do not end.
func leafFrames(ours []ourFrame) int {
	return 1 + slices.IndexFunc(ours, func(f ourFrame) bool { return !f.inlined })
}

// skipsCaller reports whether HotSpot has the same leaf, including inlined frames, followed by only the last of our
// frames: at instructions that create or remove a frame, HotSpot skips the caller.
func skipsCaller(ours []ourFrame, theirs []javaFrame) bool {
	n := leafFrames(ours)
	return leafAgrees(ours, theirs) && skipsToCallers(ours[n:], theirs[n:])
}

// skipsToCallers reports whether HotSpot has the last of our frames, but not the frames before them.
func skipsToCallers(ours []ourFrame, theirs []javaFrame) bool {
	skipped := len(ours) - len(theirs)
	if skipped <= 0 || ours[skipped-1].inlined {
		return false
	}
	_, ok := fitFrames(ours[skipped:], theirs)
	return ok
}

// betweenFrames reports whether, before an instruction of compiled code, the frame is not yet or no longer complete:
// HotSpot adds the size of the frame anyway, and reads a wrong stack slot as the caller's place.
func betweenFrames(code []byte) bool {
	for _, begins := range []string{
		"\x55",             // push rbp
		"\x48\x81\xec",     // sub rsp, a number of 4 bytes
		"\x48\x83\xec",     // and of one
		"\x5d",             // pop rbp
		"\x49\x3b\x67",     // cmp rsp, [r15+...]: is there a safepoint?
		"\x49\x3b\xa7",     // likewise, farther away
		"\x41\x85\x02\xc3", // test [r10], eax; ret: the same up to JDK 15
		"\xc3",             // ret
	} {
		if bytes.HasPrefix(code, []byte(begins)) {
			return true
		}
	}
	const tests, ja, last = "\x89\x84\x24", "\x0f\x87", 6
	return bytes.HasPrefix(code, []byte(tests)) && code[last] == 0xff || // mov [rsp-...], eax: is there enough stack?
		bytes.HasPrefix(code, []byte(ja)) && code[last] == 0xc3 // ja; ret: there is a safepoint
}

// leafAgrees reports whether HotSpot has the same leaf, including inlined frames.
func leafAgrees(ours []ourFrame, theirs []javaFrame) bool {
	n := leafFrames(ours)
	if n == 0 || n > len(theirs) {
		return false
	}
	_, ok := fitFrames(ours[:n], theirs[:n])
	return ok
}

// losesItsWay reports whether HotSpot does not reach the first method of the thread from a leaf outside Java: it
// follows rbp, which such code may use for other purposes.
func losesItsWay(ours []ourFrame, theirs []javaFrame) bool {
	if !ours[0].returned || len(theirs) == 0 || len(theirs) >= len(ours) {
		return false
	}
	return ours[len(ours)-1].javaFrame != theirs[len(theirs)-1]
}

// endsEarly reports whether HotSpot's frames all agree, but end early: JDK 11 ends at frames of method handles.
func endsEarly(at int, t *javaTrace) bool { return at > 0 && at == len(t.frames) }

// stack compares a stack with the trace of the same instant.
func (r *javaReport) stack(ours []ourFrame, t *javaTrace) {
	at, ok := fitFrames(ours, t.frames)
	if !ok && len(ours) > 0 {
		switch {
		case t.undecipherable:
			r.NotCompared["HotSpot: leaf not decipherable"]++
			return
		case ours[0].noName && !ours[0].compiled:
			if next, fits := fitFrames(ours[1:], t.frames); fits || endsEarly(next, t) {
				ours, at, ok = ours[1:], next, fits
				r.Entering++
			}
		case ours[0].returned:
			// The leaf is a stub, and HotSpot reports the place after the call.
			if skipsToCallers(ours, t.frames) {
				r.NotCompared["HotSpot: skips the callers of a stub"]++
				return
			}
			n := leafFrames(ours)
			for skip := 1; skip <= len(t.frames); skip++ {
				if lacksInlined(ours[n:], t.frames[skip:]) {
					ours, t.frames = ours[n:], t.frames[skip:]
					at, ok = fitFrames(ours, t.frames)
					r.Stubs++
					break
				}
			}
		}
	}
	if !ok && endsEarly(at, t) {
		r.NotCompared["HotSpot: ends early"]++
		return
	}
	if !ok && skipsCaller(ours, t.frames) {
		r.NotCompared["HotSpot: skips the callers of the leaf"]++
		return
	}
	if !ok && len(ours) > 0 && losesItsWay(ours, t.frames) {
		r.NotCompared["HotSpot: ends early, from a leaf that is not in Java"]++
		return
	}
	if !ok && betweenFrames(t.code) && leafAgrees(ours, t.frames) && !ours[0].interpreted {
		r.NotCompared["HotSpot: other callers, from an instruction that makes or leaves a frame"]++
		return
	}
	r.Stacks++
	if !ok && lacksInlined(ours, t.frames) {
		r.NotInlined++
		return
	}
	for i := range min(len(ours), len(t.frames)) {
		switch {
		case ours[i].compiled:
			r.NoCode++
		case ours[i].noName:
			r.NoName++
		case t.frames[i].method == unloaded:
			r.Gone++
		case ours[i].unlined(t.frames[i]):
			r.Unlined++
		default:
			r.Frames++
			if ours[i].javaFrame == t.frames[i] {
				r.Agreed++
				if ours[i].inlined {
					r.Inlined++
				}
				if ours[i].interpreted {
					r.Interpreted++
				}
			}
		}
	}
	if ok {
		r.Whole++
		return
	}
	kind := "another frame"
	switch {
	case slices.ContainsFunc(ours, func(f ourFrame) bool { return f.method == unnamed }):
		kind = "code without a name"
	case at >= len(ours):
		kind = "the profiler ends early"
	case at == 0:
		kind = "another leaf"
	case ours[at].line == 0:
		kind = "no line"
	}
	if r.Differ[kind]++; r.Differ[kind] > r.examples {
		return
	}
	e := javaExample{Difference: kind, At: at, Code: hex.EncodeToString(t.code)}
	for i := range max(len(ours), len(t.frames)) {
		var pair [2]string
		if i < len(ours) {
			if pair[0] = ours[i].String(); ours[i].noName {
				pair[0] = "Interpreter"
			} else if i == 0 && ours[i].returned {
				pair[0] += ", in a call"
			}
		}
		if i < len(t.frames) {
			pair[1] = t.frames[i].String()
		}
		e.Frames = append(e.Frames, pair)
	}
	r.Examples = append(r.Examples, e)
}

func (r *javaReport) print(w io.Writer) {
	fmt.Fprintf(w, "%d stacks compared with AsyncGetCallTrace, %d equal in all frames, %d differ %s\n",
		r.Stacks, r.Whole, r.wrong(), counts(r.Differ))
	fmt.Fprintf(w, "%d lack inlined methods, where the line is not known\n", r.NotInlined)
	fmt.Fprintf(w, "in %d HotSpot has no leaf yet, in %d it is behind the call of a stub\n", r.Entering, r.Stubs)
	fmt.Fprintf(w, "%d frames, of which %d agree in method, file and line, %d of them inlined, %d interpreted\n",
		r.Frames, r.Agreed, r.Inlined, r.Interpreted)
	fmt.Fprintf(w, "%d more have no line, %d are interpreted and %d compiled and have no name, %d of unloaded methods\n",
		r.Unlined, r.NoName, r.NoCode, r.Gone)
	fmt.Fprintf(w, "not compared: %d signals late, %d dropped\n", r.Late, r.Dropped)
	for _, reason := range slices.Sorted(maps.Keys(r.NotCompared)) {
		fmt.Fprintf(w, "  %d stacks: %s\n", r.NotCompared[reason], reason)
	}
	for _, e := range r.Examples {
		fmt.Fprintf(w, "\n%s, frame %d: the profiler's, HotSpot's\n", e.Difference, e.At)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for i, f := range e.Frames {
			fmt.Fprintf(table, "  %d\t%s\t%s\n", i, f[0], f[1])
		}
		table.Flush()
	}
}
