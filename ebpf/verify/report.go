package verify

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/symbol"
)

// Report is what a Verifier found.
type Report struct {
	Seconds    float64 `json:"seconds"`
	SampleRate int     `json:"sample_rate"`

	Samples    uint64            `json:"samples"`     // taken
	Lost       uint64            `json:"lost"`        // taken, but there was no room for them; of any process
	Uncopied   uint64            `json:"not_copied"`  // stacks that missed a table and were not copied: no room, or too many; of any process
	UserStacks uint64            `json:"user_stacks"` // of these, with a user part
	Complete   float64           `json:"complete"`    // share of user stacks, 0 to 1
	Outcomes   map[string]uint64 `json:"outcomes"`    // of samples

	Stacks        uint64            `json:"stacks_compared"`
	StacksAgreed  uint64            `json:"stacks_agreed"`
	Frames        uint64            `json:"frames_compared"`
	FramesAgreed  uint64            `json:"frames_agreed"`
	Agreement     float64           `json:"agreement"`            // of frames, 0 to 1
	InKernel      uint64            `json:"stacks_in_kernel"`     // of those compared: walked in the kernel alone
	ByRows        uint64            `json:"stacks_by_rows"`       // finished in user space by the rows that the kernel lacked
	ByCode        uint64            `json:"stacks_by_code"`       // finished in user space, in part by what code does that a program has made
	ByCFI         uint64            `json:"stacks_by_cfi"`        // walked anew in user space by complete call frame information
	FramesByCFI   uint64            `json:"frames_by_cfi"`        // their frames. The reference walks in the same way, so they are not in frames_compared
	AgreedByCFI   uint64            `json:"frames_by_cfi_agreed"` // of these, equal
	NotCheckable  uint64            `json:"frames_not_checkable"` // behind the end of the reference walk
	ReferenceEnds map[string]uint64 `json:"reference_ends"`       // why reference walks ended

	NotCompared map[string]uint64 `json:"not_compared"` // user stacks, by reason

	Errors map[string]uint64 `json:"errors"` // what went wrong beside, and how often

	Disagreements []Disagreement `json:"disagreements"`
	Incomplete    []Incomplete   `json:"incomplete"`
	Examples      []Example      `json:"examples"`
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

// Example is a stack in full, beside the reference.
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
	tracker    *process.Tracker
	symbolizer *symbol.Symbolizer
}

func (r *results) report(took time.Duration, t *process.Tracker) *Report {
	names := reporter{t, symbol.New(symbol.Options{})}
	out := &Report{
		Seconds: took.Seconds(), SampleRate: r.options.SampleRate,
		Samples: r.samples, UserStacks: r.userStacks, Complete: share(r.complete, r.userStacks), Outcomes: r.outcomes,
		Stacks: r.compared, StacksAgreed: r.whole, Frames: r.frames, FramesAgreed: r.agreed,
		Agreement: share(r.agreed, r.frames), NotCheckable: r.uncheckable, ReferenceEnds: r.ends,
		InKernel: r.finishes[kernel.InKernel], ByRows: r.finishes[kernel.ByRows], ByCode: r.finishes[kernel.ByCode], ByCFI: r.finishes[kernel.ByCFI],
		FramesByCFI: r.framesByCFI, AgreedByCFI: r.agreedByCFI,
		NotCompared:   maps.Clone(r.skipped),
		Disagreements: []Disagreement{}, Incomplete: []Incomplete{}, Examples: []Example{},
	}
	noRoom := min(r.lost, r.unpaired)
	for reason, n := range map[string]uint64{"perf's buffer had no room for the copy": noRoom, "perf recorded no copy": r.unpaired - noRoom} {
		if n > 0 {
			out.NotCompared[reason] = n
		}
	}
	for p, n := range r.disagreements {
		out.Disagreements = append(out.Disagreements, Disagreement{Difference(p.reason), names.binary(p.exe), n})
	}
	slices.SortFunc(out.Disagreements, func(a, b Disagreement) int {
		return cmp.Or(cmp.Compare(b.Stacks, a.Stacks), cmp.Compare(a.Binary, b.Binary), cmp.Compare(a.Difference, b.Difference))
	})
	for p, n := range r.incomplete {
		out.Incomplete = append(out.Incomplete, Incomplete{p.reason, names.binary(p.exe), n.stacks, n.continued})
	}
	slices.SortFunc(out.Incomplete, func(a, b Incomplete) int {
		return cmp.Or(cmp.Compare(b.Stacks, a.Stacks), cmp.Compare(a.Binary, b.Binary), cmp.Compare(a.Outcome, b.Outcome))
	})
	for p, examples := range r.examples {
		for _, e := range examples {
			out.Examples = append(out.Examples, names.example(p, &e))
		}
	}
	slices.SortStableFunc(out.Examples, func(a, b Example) int {
		return cmp.Or(cmp.Compare(min(b.Difference, 0), min(a.Difference, 0)), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Binary, b.Binary))
	})
	return out
}

// share is part of whole; of nothing, it is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (n reporter) binary(exe uint32) string {
	if e := n.tracker.Executable(exe); e != nil {
		return e.Path
	}
	return "[unknown]"
}

func (n reporter) example(p place, e *example) Example {
	out := Example{
		Reason: p.reason, Binary: n.binary(p.exe), PID: e.walk.pid, Comm: e.walk.comm,
		Outcome: e.walk.outcome.String(), End: e.truth.end.String(), Difference: e.comparison.at,
	}
	if e.truth.err != nil {
		out.Error = e.truth.err.Error()
	}
	for i := range max(len(e.walk.frames), len(e.truth.frames)) {
		var pair FramePair
		if i < len(e.walk.frames) {
			pair.Walk = n.frame(e.walk.frames[i])
		}
		if i < len(e.truth.frames) {
			pair.Reference = n.frame(e.truth.frames[i])
		}
		out.Frames = append(out.Frames, pair)
	}
	return out
}

// frame is "function (binary+0xaddress)", with * behind one that only the frame
// pointer gave.
func (n reporter) frame(f kernel.Frame) string {
	e := n.tracker.Executable(f.Exe)
	if e == nil {
		return fmt.Sprintf("0x%x%s", f.Address, mark(f))
	}
	object := &symbol.Object{ID: e.ID, Path: e.Path, BuildID: e.BuildID, Root: e.Root, Open: e.Open}
	at := fmt.Sprintf("%s+0x%x%s", path.Base(e.Path), f.Address, mark(f))
	frames := n.symbolizer.Frames(object, f.Address, f.Flags&kernel.ReturnAddress != 0)
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
