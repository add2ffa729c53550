package verify

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report as text for people.
func (r *Report) WriteText(w io.Writer) error {
	t := &text{w: w}
	t.printf("%d user stacks: %d checked fully, %d partly, %d not; frames checked: %s of %d\n",
		r.UserStacks, r.StacksWhole, r.StacksInPart, r.StacksNotComparable, percent(r.Coverage),
		r.Frames-r.FramesMissing+r.NotCheckable)
	t.printf("%d frames compared: %d agree, %s; incomplete stacks lack %d frames\n",
		r.Frames, r.FramesAgreed, percent(r.Agreement), r.FramesMissing)
	t.printf("%d stacks compared: %d agree, %d of them whole; %d walked in the kernel, "+
		"%d finished in user space by the same rows, %d by code analysis, %d by complete CFI\n",
		r.Stacks, r.StacksAgreed, r.WholeAgreed, r.InKernel, r.ByRows, r.ByCode, r.ByCFI)
	t.printf("%d samples in %.1f s, %d with a user stack; %s of these are complete\n",
		r.Samples, r.Seconds, r.UserStacks, percent(r.Complete))
	t.printf("Lost: %d samples and %d copies of stacks, because a buffer was full or a limit reached; records of "+
		"mappings, %d times\n", r.Lost, r.Uncopied, r.ReferenceLost)

	t.counts("Checked partly: why the reference stopped", r.InPart)
	t.counts("Not checked: why", r.NotComparable)
	t.counts("Checked fully: end of the reference", r.Roots)
	t.counts("Outcomes", r.Outcomes)
	t.languages(r.Languages)
	t.counts("Errors", r.Errors)
	t.disagreements(r.Disagreements)
	t.incomplete(r.Incomplete)
	for _, e := range r.Examples {
		t.example(&e)
	}
	return t.err
}

// percent formats a share. A share below 1 is never shown as 100 %.
func percent(share float64) string {
	s := fmt.Sprintf("%.3f %%", 100*share)
	if share < 1 && strings.HasPrefix(s, "100") {
		return "99.999 %"
	}
	return s
}

// text writes to w and keeps the first error.
type text struct {
	w   io.Writer
	err error
}

func (t *text) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// table writes lines of cells under a headline, if there are any.
func (t *text) table(headline string, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.printf("\n%s\n", headline)
	tabs := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintf(tabs, "  %s\n", line)
	}
	t.err = cmp.Or(t.err, tabs.Flush())
}

func (t *text) counts(headline string, counts map[string]uint64) {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var lines []string
	for _, key := range keys {
		lines = append(lines, fmt.Sprintf("%d\t%s", counts[key], key))
	}
	t.table(headline, lines)
}

func (t *text) languages(all []Language) {
	var lines []string
	for _, l := range all {
		lines = append(lines, fmt.Sprintf("%s\t%d named\t%d could not be read\t%d have no names\t%s", l.Name, l.Named,
			l.NotRead, l.NotNamed, l.Hint))
	}
	t.table("Frames of languages (not compared)", lines)
}

func (t *text) disagreements(all []Disagreement) {
	var lines []string
	for _, d := range all {
		lines = append(lines, fmt.Sprintf("%d\t%s\t%s", d.Stacks, d.Difference, d.Binary))
	}
	t.table("Stacks that disagree: the difference, and the binary whose caller differs", lines)
}

func (t *text) incomplete(all []Incomplete) {
	var lines []string
	for _, i := range all {
		lines = append(lines, fmt.Sprintf("%d\t%s\t%s\treference goes on: %d", i.Stacks, i.Outcome, i.Binary, i.Continued))
	}
	t.table("Incomplete stacks", lines)
}

// shownFrames is the number of frames of an example in the text. The JSON form has all frames.
const shownFrames = 40

func (t *text) example(e *Example) {
	reference := e.End
	if e.Error != "" {
		reference += ": " + e.Error
	}
	lines := []string{"\tWALK: " + e.Outcome + "\tREFERENCE: " + reference}
	shown := max(shownFrames, e.Difference+shownFrames/4)
	for i, f := range e.Frames {
		if i == shown {
			lines = append(lines, fmt.Sprintf("\tand %d more frames", len(e.Frames)-shown))
			break
		}
		same := "="
		switch {
		case f.Walk == "" || f.Reference == "":
			same = " "
		case strings.TrimSuffix(strings.TrimSuffix(f.Walk, ")"), "*") != strings.TrimSuffix(f.Reference, ")"):
			same = "!"
		}
		lines = append(lines, fmt.Sprintf("%d %s\t%s\t%s", i, same, f.Walk, f.Reference))
	}
	t.table(fmt.Sprintf("%s in %s: %s (PID %d)", e.Reason, e.Binary, e.Comm, e.PID), lines)
}
