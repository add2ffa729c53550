package verify

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
	"github.com/headwater/headwater/flame/demangle"
)

// Report is the result of a Verifier.
type Report struct {
	Seconds    float64 `json:"seconds"`
	SampleRate int     `json:"sample_rate"`

	Samples uint64 `json:"samples"` // samples taken
	Lost    uint64 `json:"lost"`    // samples dropped for lack of room; of any process
	// Uncopied is the number of stacks that missed a table and were not copied for lack of room or because of the
	// limit; of any process.
	Uncopied   uint64            `json:"not_copied"`
	UserStacks uint64            `json:"user_stacks"` // samples with a user part
	Complete   float64           `json:"complete"`    // share of user stacks, 0 to 1
	Outcomes   map[string]uint64 `json:"outcomes"`    // samples by outcome

	// Extent of the comparison. Frames are callers: the leaf is at the sampled pc, and need not be found.
	StacksWhole         uint64            `json:"stacks_whole"`          // up to the root or the first difference
	StacksInPart        uint64            `json:"stacks_in_part"`        // compared up to the end of the reference
	StacksNotComparable uint64            `json:"stacks_not_comparable"` // no caller could be compared
	InPart              map[string]uint64 `json:"in_part"`               // StacksInPart, by end of the reference
	NotComparable       map[string]uint64 `json:"not_comparable"`        // StacksNotComparable, by reason
	Roots               map[string]uint64 `json:"roots"`                 // StacksWhole, by end of the reference
	Coverage            float64           `json:"coverage"`              // share of frames in walks compared, 0 to 1
	NotCheckable        uint64            `json:"frames_not_checkable"`  // frames in walks that were not compared

	Stacks        uint64  `json:"stacks_compared"` // compared whole or in part
	StacksAgreed  uint64  `json:"stacks_agreed"`   // compared stacks without a difference
	WholeAgreed   uint64  `json:"stacks_whole_agreed"`
	Frames        uint64  `json:"frames_compared"`
	FramesAgreed  uint64  `json:"frames_agreed"`
	FramesMissing uint64  `json:"frames_missing"` // compared frames past the end of a stack reported as incomplete
	Agreement     float64 `json:"agreement"`      // share of compared frames that agree, 0 to 1
	InKernel      uint64  `json:"stacks_in_kernel"`
	ByRows        uint64  `json:"stacks_by_rows"` // finished in user space with rows that the kernel lacked
	ByCode        uint64  `json:"stacks_by_code"` // finished in user space, partly by analysis of generated code
	ByCFI         uint64  `json:"stacks_by_cfi"`  // walked in user space by call frame information
	ReferenceLost uint64  `json:"reference_lost"` // how often the reference lost records of mappings

	Errors map[string]uint64 `json:"errors"` // other errors, with their number

	// Languages counts the frames of language runtimes. These frames are not compared, and not in the figures above.
	Languages []Language `json:"languages"`

	Disagreements []Disagreement `json:"disagreements"`
	Incomplete    []Incomplete   `json:"incomplete"`
	Examples      []Example      `json:"examples"`
}

// Language counts the frames of one language runtime, named and unnamed.
type Language struct {
	Name     string `json:"name"` // name and version
	Named    uint64 `json:"named"`
	NotRead  uint64 `json:"not_read"`  // the function could not be read from the process
	NotNamed uint64 `json:"not_named"` // functions of this language or version are not supported
	Hint     string `json:"hint,omitempty"`
}

// Disagreement counts stacks that differ from the reference in the same way.
type Disagreement struct {
	Difference Difference `json:"difference"`
	Binary     string     `json:"binary"` // binary of the frame whose caller differs
	Stacks     uint64     `json:"stacks"`
}

// Incomplete counts stacks that ended early in the same way.
type Incomplete struct {
	Outcome   string `json:"outcome"`
	Binary    string `json:"binary"` // binary of the last frame
	Stacks    uint64 `json:"stacks"`
	Continued uint64 `json:"continued"` // number of Stacks that the reference continued: they could be complete
}

// Example is a whole stack and its reference.
type Example struct {
	Reason     string      `json:"reason"` // a difference, or the outcome of an incomplete stack
	Binary     string      `json:"binary"`
	PID        uint32      `json:"pid"`
	Comm       string      `json:"comm"`
	Outcome    string      `json:"outcome"`
	End        string      `json:"reference_end"`
	Error      string      `json:"reference_error,omitempty"`
	Difference int         `json:"difference_at"` // index of the frame whose caller differs; -1 if none
	Frames     []FramePair `json:"frames"`        // leaf first
}

// FramePair is one position of two stacks. A string is empty if that stack has no such frame.
type FramePair struct {
	Walk      string `json:"walk"`
	Reference string `json:"reference"`
}

// reporter names the executables and frames of results.
type reporter struct {
	executable func(unwind.ExeID) *process.Executable // by ID; nil if no longer known
	symbolizer *symbol.Symbolizer
	files      map[*reference.File]uint32 // symbolizer IDs of files of the reference
}

func (r *results) report(took time.Duration, executable func(unwind.ExeID) *process.Executable) *Report {
	names := reporter{executable, symbol.New(symbol.Options{}), map[*reference.File]uint32{}}
	out := &Report{
		Seconds: took.Seconds(), SampleRate: r.options.SampleRate,
		Samples: r.samples, UserStacks: r.userStacks, Complete: share(r.complete, r.userStacks), Outcomes: r.outcomes,
		StacksWhole: r.stacks[Whole], StacksInPart: r.stacks[InPart],
		InPart: r.ends[InPart], NotComparable: r.notComparable(), Roots: r.ends[Whole],
		Coverage: share(r.frames-r.missing, r.frames-r.missing+r.uncheckable), NotCheckable: r.uncheckable,
		Stacks:       r.stacks[Whole] + r.stacks[InPart],
		StacksAgreed: r.agree[Whole] + r.agree[InPart], WholeAgreed: r.agree[Whole],
		Frames: r.frames, FramesAgreed: r.agreed, FramesMissing: r.missing, Agreement: share(r.agreed, r.frames),
		InKernel: r.finishes[kernel.InKernel], ByRows: r.finishes[kernel.ByRows],
		ByCode: r.finishes[kernel.ByAnalysis], ByCFI: r.finishes[kernel.ByCFI],
		Languages: []Language{}, Disagreements: []Disagreement{}, Incomplete: []Incomplete{}, Examples: []Example{},
	}
	for _, n := range out.NotComparable {
		out.StacksNotComparable += n
	}
	for p, n := range r.disagreements {
		out.Disagreements = append(out.Disagreements, Disagreement{Difference(p.reason), names.binary(p.exe), n})
	}
	slices.SortStableFunc(out.Disagreements, func(a, b Disagreement) int {
		return cmp.Or(cmp.Compare(b.Stacks, a.Stacks), cmp.Compare(a.Binary, b.Binary),
			cmp.Compare(a.Difference, b.Difference))
	})
	for p, n := range r.incomplete {
		out.Incomplete = append(out.Incomplete, Incomplete{p.reason, names.binary(p.exe), n.stacks, n.continued})
	}
	slices.SortStableFunc(out.Incomplete, func(a, b Incomplete) int {
		return cmp.Or(cmp.Compare(b.Stacks, a.Stacks), cmp.Compare(a.Binary, b.Binary), cmp.Compare(a.Outcome, b.Outcome))
	})
	for p, examples := range r.examples {
		for _, e := range examples {
			out.Examples = append(out.Examples, names.example(p, &e))
		}
	}
	slices.SortStableFunc(out.Examples, func(a, b Example) int {
		return cmp.Or(cmp.Compare(min(b.Difference, 0), min(a.Difference, 0)), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Binary, b.Binary))
	})
	return out
}

// notComparable returns the number of stacks that could not be compared, by reason.
func (r *results) notComparable() map[string]uint64 {
	out := maps.Clone(r.skipped)
	for end, n := range r.ends[NotComparable] {
		out["at the leaf: "+end] = n
	}
	noRoom := min(r.lost, r.unpaired)
	for reason, n := range map[string]uint64{
		"perf's buffer had no room for the copy": noRoom,
		"perf recorded no copy":                  r.unpaired - noRoom,
	} {
		if n > 0 {
			out[reason] = n
		}
	}
	return out
}

// share returns part/whole, or 0 if whole is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (n reporter) binary(exe unwind.ExeID) string {
	if e := n.executable(exe); e != nil {
		return e.Path
	}
	return "[unknown]"
}

func (n reporter) example(p place, e *example) Example {
	out := Example{
		Reason: p.reason, Binary: n.binary(p.exe), PID: e.walk.pid, Comm: e.walk.comm,
		Outcome: e.walk.outcome.String(), End: string(e.stack.End), Difference: e.comparison.at,
	}
	if e.stack.Err != nil {
		out.Error = e.stack.Err.Error()
	}
	for i := range max(len(e.walk.frames), len(e.stack.Frames)) {
		var pair FramePair
		if i < len(e.walk.frames) {
			pair.Walk = n.frame(e.walk.frames[i])
		}
		if i < len(e.stack.Frames) {
			pair.Reference = n.referenceFrame(e.stack.Frames[i], i > 0)
		}
		out.Frames = append(out.Frames, pair)
	}
	return out
}

// frame returns "function (binary+0xaddress)". A * after the address marks a frame that was found only by the frame
// pointer.
func (n reporter) frame(f kernel.Frame) string {
	e := n.executable(f.Exe)
	if e == nil {
		return fmt.Sprintf("0x%x%s", f.Vaddr, frameMark(f))
	}
	object := &symbol.Object{ID: uint32(e.ID), Path: e.Path, BuildID: e.BuildID, Root: e.Root, Open: e.Open}
	return n.named(object, f.Vaddr, f.Flags&kernel.ReturnAddress != 0, frameMark(f))
}

// referenceFrame names a frame of the reference. The reference has found the file and the address itself; only the name
// is from the profiler's symbolizer, and names are not compared.
func (n reporter) referenceFrame(f reference.Frame, returns bool) string {
	if f.File == nil {
		return fmt.Sprintf("0x%x", f.PC)
	}
	const own = 1 << 31 // above all IDs of the tracker's executables
	id, known := n.files[f.File]
	if !known {
		id = own + uint32(len(n.files))
		n.files[f.File] = id
	}
	object := &symbol.Object{ID: id, Path: f.File.Path, Open: func() (*elffile.File, error) { return elffile.New(f.File) }}
	return n.named(object, f.Vaddr, returns, "")
}

func (n reporter) named(object *symbol.Object, vaddr uint64, returns bool, mark string) string {
	at := fmt.Sprintf("%s+0x%x%s", path.Base(object.Path), vaddr, mark)
	frames := n.symbolizer.Frames(object, vaddr, returns)
	if frames[0].Kind == symbol.Unknown {
		return at
	}
	return demangle.Simplified.Apply(frames[0].Function) + " (" + at + ")"
}

func frameMark(f kernel.Frame) string {
	if f.Flags&kernel.FramePointer != 0 {
		return "*"
	}
	return ""
}
