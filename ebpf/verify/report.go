package verify

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/order"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// Report is what a Verifier found.
type Report struct {
	Seconds    float64 `json:"seconds"`
	SampleRate int     `json:"sample_rate"`

	Samples uint64 `json:"samples"` // taken
	Lost    uint64 `json:"lost"`    // taken, but there was no room for them; of any process
	// Uncopied are stacks that missed a table and were not copied: no room, or too many; of any process.
	Uncopied   uint64            `json:"not_copied"`
	UserStacks uint64            `json:"user_stacks"` // of these, with a user part
	Complete   float64           `json:"complete"`    // share of user stacks, 0 to 1
	Outcomes   map[string]uint64 `json:"outcomes"`    // of samples

	// How much could be compared. The leaf, at the sampled pc, is no frame that has to be
	// found: frames are callers.
	StacksWhole         uint64            `json:"stacks_whole"`          // up to the root, or to where they differ
	StacksInPart        uint64            `json:"stacks_in_part"`        // compared up to where the reference ended
	StacksNotComparable uint64            `json:"stacks_not_comparable"` // no caller could be compared
	InPart              map[string]uint64 `json:"in_part"`               // why the reference ended there
	NotComparable       map[string]uint64 `json:"not_comparable"`        // why not
	Roots               map[string]uint64 `json:"roots"`                 // which end of the stack the reference reached
	Coverage            float64           `json:"coverage"`              // share of the frames that walks found, 0 to 1
	NotCheckable        uint64            `json:"frames_not_checkable"`  // found by walks, and not compared

	Stacks        uint64  `json:"stacks_compared"` // whole or in part
	StacksAgreed  uint64  `json:"stacks_agreed"`   // as far as they were compared
	WholeAgreed   uint64  `json:"stacks_whole_agreed"`
	Frames        uint64  `json:"frames_compared"`
	FramesAgreed  uint64  `json:"frames_agreed"`
	FramesMissing uint64  `json:"frames_missing"` // of those compared: the stack ends before them, and says so
	Agreement     float64 `json:"agreement"`      // of frames, 0 to 1
	InKernel      uint64  `json:"stacks_in_kernel"`
	ByRows        uint64  `json:"stacks_by_rows"` // finished in user space by the rows that the kernel lacked
	ByCode        uint64  `json:"stacks_by_code"` // finished in user space, in part by analysing code made at run time
	ByCFI         uint64  `json:"stacks_by_cfi"`  // walked in user space by call frame information
	ReferenceLost uint64  `json:"reference_lost"` // how often the reference lost records of what processes map

	Errors map[string]uint64 `json:"errors"` // what else went wrong, and how often

	// Languages are the frames of language runtimes, which are not compared. They are no part of those above.
	Languages []Language `json:"languages"`

	Disagreements []Disagreement `json:"disagreements"`
	Incomplete    []Incomplete   `json:"incomplete"`
	Examples      []Example      `json:"examples"`
}

// Language counts frames of one language runtime, and says why some have no names.
type Language struct {
	Name     string `json:"name"` // with the version
	Named    uint64 `json:"named"`
	NotRead  uint64 `json:"not_read"`  // what they run could not be read of the process
	NotNamed uint64 `json:"not_named"` // functions of this language, or version, are not named
	Hint     string `json:"hint,omitempty"`
}

// Disagreement counts stacks that differ from the reference in the same way.
type Disagreement struct {
	Difference Difference `json:"difference"`
	Binary     string     `json:"binary"` // of the frame whose caller differs
	Stacks     uint64     `json:"stacks"`
}

// Incomplete counts stacks that ended early in the same way.
type Incomplete struct {
	Outcome   string `json:"outcome"`
	Binary    string `json:"binary"` // of the last frame
	Stacks    uint64 `json:"stacks"`
	Continued uint64 `json:"continued"` // of these, the reference went on: they could be complete
}

// Example is a stack in full, next to the reference.
type Example struct {
	Reason     string      `json:"reason"` // a difference, or the outcome of an incomplete stack
	Binary     string      `json:"binary"`
	PID        uint32      `json:"pid"`
	Comm       string      `json:"comm"`
	Outcome    string      `json:"outcome"`
	End        string      `json:"reference_end"`
	Error      string      `json:"reference_error,omitempty"`
	Difference int         `json:"difference_at"` // index of the frame whose caller differs, -1: none
	Frames     []FramePair `json:"frames"`        // leaf first
}

// FramePair is one position of two stacks; an empty string is no frame.
type FramePair struct {
	Walk      string `json:"walk"`
	Reference string `json:"reference"`
}

// reporter names what results only number.
type reporter struct {
	executable func(unwind.ExeID) *process.Executable // by number; nil: not known any more
	symbolizer *symbol.Symbolizer
	files      map[*reference.File]uint32 // of the reference: their numbers for the symbolizer
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
	order.Stable(out.Disagreements, func(a, b Disagreement) int {
		return cmp.Or(cmp.Compare(b.Stacks, a.Stacks), cmp.Compare(a.Binary, b.Binary),
			cmp.Compare(a.Difference, b.Difference))
	})
	for p, n := range r.incomplete {
		out.Incomplete = append(out.Incomplete, Incomplete{p.reason, names.binary(p.exe), n.stacks, n.continued})
	}
	order.Stable(out.Incomplete, func(a, b Incomplete) int {
		return cmp.Or(cmp.Compare(b.Stacks, a.Stacks), cmp.Compare(a.Binary, b.Binary), cmp.Compare(a.Outcome, b.Outcome))
	})
	for p, examples := range r.examples {
		for _, e := range examples {
			out.Examples = append(out.Examples, names.example(p, &e))
		}
	}
	order.Stable(out.Examples, func(a, b Example) int {
		return cmp.Or(cmp.Compare(min(b.Difference, 0), min(a.Difference, 0)), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Binary, b.Binary))
	})
	return out
}

// notComparable says why stacks could not be compared, and how many.
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

// share is part of whole; of nothing, it is 0.
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

// frame is "function (binary+0xaddress)", with * after one that only the frame
// pointer gave.
func (n reporter) frame(f kernel.Frame) string {
	e := n.executable(f.Exe)
	if e == nil {
		return fmt.Sprintf("0x%x%s", f.Vaddr, mark(f))
	}
	object := &symbol.Object{ID: uint32(e.ID), Path: e.Path, BuildID: e.BuildID, Root: e.Root, Open: e.Open}
	return n.named(object, f.Vaddr, f.Flags&kernel.ReturnAddress != 0, mark(f))
}

// referenceFrame names a frame of the reference, which has found the file and the
// address by itself; names are no part of what is compared.
func (n reporter) referenceFrame(f reference.Frame, returns bool) string {
	if f.File == nil {
		return fmt.Sprintf("0x%x", f.PC)
	}
	const own = 1 << 31 // numbers that no executable of the tracker has
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
	return symbol.DemangleSimplified.Apply(frames[0].Function) + " (" + at + ")"
}

func mark(f kernel.Frame) string {
	if f.Flags&kernel.FramePointer != 0 {
		return "*"
	}
	return ""
}
