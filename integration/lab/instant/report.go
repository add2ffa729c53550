package main

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/headwater/headwater/integration/testkit/walks"
)

// Program is the result for the programs with one name, or for all programs.
type Program struct {
	Stacks int `json:"stacks"`       // compared
	Whole  int `json:"stacks_whole"` // complete from the leaf to the root on both sides, and equal
	// Equal as far as libgcc's stack: it has no FDE for the frame where it ends.
	Partial    int            `json:"stacks_in_part"`
	Incomplete map[string]int `json:"incomplete"`       // equal as far as the profiler's stack, by its outcome
	Differ     map[string]int `json:"stacks_differ"`    // by kind of difference
	Frames     int            `json:"frames"`           // compared, without the sampled instruction
	Agreed     int            `json:"frames_agreed"`    // frames that agree
	Unchecked  int            `json:"frames_unchecked"` // after the end of libgcc's stack
	// After the end of the profiler's stack, which is marked as incomplete.
	Missing int `json:"frames_missing"`
}

// Report is the result of a run.
type Report struct {
	Program
	ByCommand    map[string]*Program `json:"by_command"`
	NoSample     int                 `json:"signals_without_sample"`
	OtherInstant int                 `json:"signals_at_another_instruction"`
	Replaced     int                 `json:"stacks_of_programs_since_replaced"`
	NoFrames     map[string]int      `json:"samples_without_frames"`
	Late         uint64              `json:"signals_late"`    // blocked at their instant
	Dropped      uint64              `json:"signals_dropped"` // no room
	Examples     []Example           `json:"examples,omitempty"`
	Python       *PythonReport       `json:"python,omitempty"`
}

// Example is a stack on both sides.
type Example struct {
	Difference string      `json:"difference"`
	Command    string      `json:"command"`
	Outcome    string      `json:"outcome"`
	End        string      `json:"libgcc_end"`
	At         int         `json:"first_difference"`
	Frames     [][2]string `json:"frames"` // the profiler's, libgcc's
}

func newProgram() *Program { return &Program{Incomplete: map[string]int{}, Differ: map[string]int{}} }

func newReport(all *traces) *Report {
	return &Report{Program: *newProgram(), ByCommand: map[string]*Program{}, NoFrames: map[string]int{}, Late: all.late,
		Dropped: all.dropped}
}

func (r *Report) program(comm string) *Program {
	if r.ByCommand[comm] == nil {
		r.ByCommand[comm] = newProgram()
	}
	return r.ByCommand[comm]
}

func (r *Report) compared() int { return r.Frames }

// wrong returns the number of stacks that differ.
func (r *Report) wrong() int {
	n := r.OtherInstant
	if r.Python != nil {
		n += r.Python.Wrong
	}
	for _, stacks := range r.Differ {
		n += stacks
	}
	return n
}

func (e ending) String() string {
	switch e {
	case atRoot:
		return "root"
	case noFDE:
		return "no FDE"
	case failed:
		return "failed"
	case full:
		return "too many frames"
	}
	return fmt.Sprintf("ending %d", uint32(e))
}

// filter yields the elements for which keep returns true.
func filter[T any](list []T, keep func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, e := range list {
			if keep(e) && !yield(e) {
				return
			}
		}
	}
}

// textOf formats a frame; "" if there is none.
func textOf(frames []walks.Place, i int) string {
	switch {
	case i >= len(frames):
		return ""
	case frames[i].File == "":
		return fmt.Sprintf("0x%x", frames[i].Address)
	}
	return fmt.Sprintf("%s+0x%x", filepath.Base(frames[i].File), frames[i].Address)
}

func (r *Report) finish() {
	slices.SortStableFunc(r.Examples, func(a, b Example) int { return len(a.Frames) - len(b.Frames) })
}

// print writes the report as text.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "%d stacks compared with libgcc's at the same instruction: %d whole, "+
		"%d as far as libgcc has call frame information, %d as far as the profiler goes, %d differ\n",
		r.Stacks, r.Whole, r.Partial, sumCounts(r.Incomplete), sumCounts(r.Differ))
	fmt.Fprintf(w, "%d frames compared: %d agree; %d could not be compared, %d are missing after incomplete ones\n",
		r.Frames, r.Agreed, r.Unchecked, r.Missing)
	fmt.Fprintf(w, "not compared: %d signals late, %d dropped, %d without a sample, "+
		"%d at another instruction, %d of replaced programs, %v without frames\n\n",
		r.Late, r.Dropped, r.NoSample, r.OtherInstant, r.Replaced, r.NoFrames)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "command\tstacks\twhole\tin part\tframes\tagree\tunchecked\tincomplete\tdiffer")
	names := slices.SortedFunc(maps.Keys(r.ByCommand), func(a, b string) int {
		return r.ByCommand[b].Frames - r.ByCommand[a].Frames
	})
	for _, name := range names {
		p := r.ByCommand[name]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n",
			name, p.Stacks, p.Whole, p.Partial, p.Frames, p.Agreed, p.Unchecked, counts(p.Incomplete), counts(p.Differ))
	}
	table.Flush()
	if r.Python != nil {
		r.Python.print(w)
	}
	for _, e := range r.Examples {
		fmt.Fprintf(w, "\n%s in %s, frame %d: the profiler's (%s), libgcc's (%s)\n",
			e.Difference, e.Command, e.At, e.Outcome, e.End)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for i, f := range e.Frames {
			fmt.Fprintf(table, "  %d\t%s\t%s\n", i, f[0], f[1])
		}
		table.Flush()
	}
}

func sumCounts(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

func counts(m map[string]int) string {
	if len(m) == 0 {
		return ""
	}
	return fmt.Sprint(m)[len("map"):]
}
