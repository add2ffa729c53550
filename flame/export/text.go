package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/printable"
	"github.com/headwater/headwater/flame/tree"
)

// Top writes the functions with most self as a table.
func Top(w io.Writer, p *profile.Profile, most int) error {
	functions, total, err := Functions(p)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w) // Flush reports errors
	if err := writeHead(out, p); err != nil {
		return err
	}
	fmt.Fprintf(out, "%8s %8s  function\n", "self", "total")
	for _, f := range functions[:min(len(functions), most)] {
		fmt.Fprintf(out, "%8s %8s  %s", percent(f.Self, total), percent(f.Total, total), printable.Text(f.Name))
		if where := f.Where(); where != "" && !strings.HasPrefix(f.Name, where+"+") { // which already has it
			fmt.Fprintf(out, "  %s", printable.Text(where))
		}
		fmt.Fprintln(out)
	}
	if more := len(functions) - most; more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
	return out.Flush()
}

// ByLabel writes the shares of the values of a label as a table, largest first. Samples without the label are a group.
func ByLabel(w io.Writer, p *profile.Profile, label string, most int) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	values, total := map[string]int64{}, int64(0)
	for _, sample := range p.Sample {
		value := s.valueOf(sample)
		values[labelOf(sample, label)] += value
		total += value
	}
	if _, without := values[""]; without && len(values) == 1 {
		return &LabelError{label}
	}
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	out := bufio.NewWriter(w) // Flush reports errors
	if err := writeHead(out, p); err != nil {
		return err
	}
	fmt.Fprintf(out, "%8s  %s\n", "share", printable.Text(label))
	for _, name := range names[:min(len(names), most)] {
		fmt.Fprintf(out, "%8s  %s\n", percent(values[name], total), printable.Text(cmp.Or(name, "(none)")))
	}
	if more := len(names) - most; more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
	return out.Flush()
}

// labelOf returns the values of a sample's label, "" if it has none.
func labelOf(s *profile.Sample, label string) string {
	texts := slices.Clone(s.Label[label])
	for _, n := range s.NumLabel[label] {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	return strings.Join(texts, ", ")
}

// writeHead writes the title, value, samples and duration of a profile.
func writeHead(out io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s", Title(p), amount(s.total(), s.valueUnit()))
	if n, ok := s.samples(); ok {
		fmt.Fprintf(out, ", %d samples", n)
	}
	if p.DurationNanos > 0 {
		fmt.Fprintf(out, " in %.1f s", time.Duration(p.DurationNanos).Seconds())
	}
	_, err = fmt.Fprintln(out)
	return err
}

// amount returns a value with its unit.
func amount(value int64, unit string) string {
	if unit == "nanoseconds" {
		return fmt.Sprintf("%.2f s", float64(value)/1e9)
	}
	return fmt.Sprintf("%d %s", value, unit)
}

func percent(part, whole int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(whole, 1)))
}

// maxIndent is the number of callers up to which a function is indented. Deeper functions show the number of their
// callers.
const maxIndent = 60

// indent returns the indentation of a function with the given number of callers.
func indent(callers int) string {
	if callers <= maxIndent {
		return strings.Repeat("  ", callers)
	}
	return fmt.Sprintf("%s(%d) ", strings.Repeat("  ", maxIndent), callers)
}

// Tree writes functions below their callers, with their share of the total. It omits functions with a share below
// 1/200. If more than tree.DefaultMaxNodes functions remain, it shows how many are left out.
func Tree(w io.Writer, p *profile.Profile) error {
	const small = 0.005
	b := tree.NewBuilder(nil)
	if err := b.Add(withThreads(p)); err != nil {
		return err
	}
	tree := b.Tree(tree.Options{Share: small, Enough: 1})
	out := bufio.NewWriter(w) // Flush reports errors
	if err := writeHead(out, p); err != nil {
		return err
	}
	fmt.Fprintf(out, "%8s %8s\n", "total", "self")
	n := &tree.Nodes
	for i, frame := range n.Frame {
		name := ""
		switch {
		case frame >= 0:
			name = printable.Text(tree.Strings[tree.Frames.Name[frame]])
		case frame < -1 && float64(n.Total[i]) >= small*float64(n.Total[0]):
			name = fmt.Sprintf("[%d functions are left out]", -1-frame)
		default:
			continue
		}
		fmt.Fprintf(out, "%8s %8s  %s%s\n", percent(n.Total[i], n.Total[0]), percent(n.Self[i], n.Total[0]),
			indent(int(n.Depth[i])-1), name)
	}
	return out.Flush()
}
