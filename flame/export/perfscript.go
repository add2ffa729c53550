package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/printable"
)

// PerfScript writes text as perf script prints it: a line for each sample with process, thread and time, then its
// functions, leaf first. Samples are in order of time. Unknown times and thread IDs are 0. Addresses are as linked in
// the file with the code.
func PerfScript(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	type event struct {
		moment
		*track
	}
	var events []event
	for _, t := range s.tracks() {
		for _, m := range t.moments {
			events = append(events, event{m, t})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		switch {
		case a.time < b.time:
			return -1
		case a.time > b.time:
			return 1
		default:
			return 0
		}
	})
	out, what := bufio.NewWriter(w), perfEvent(p.SampleType[s.value].Type)
	var stack bytes.Buffer // text of the previous sample's stack
	var before *profile.Sample
	for _, e := range events {
		name := e.name
		if name == "" {
			name = "unknown"
		}
		fmt.Fprintf(out, "%s %d/%d %d.%06d: %10d %s: \n", printable.Text(name), e.pid, e.tid,
			e.time/1e9, e.time%1e9/1e3, e.value, what) // Flush reports errors
		if e.of != before {
			stack.Reset()
			writePerfStack(&stack, e.of)
			before = e.of
		}
		out.Write(stack.Bytes())
		if _, err := fmt.Fprintln(out); err != nil {
			return err // the reader is gone
		}
	}
	return out.Flush()
}

// perfEvent returns the name of the event for a type of values: cpu-clock for types that Headwater does not write.
func perfEvent(valueType string) string {
	if k, ok := kind.ByValue(valueType); ok && k != kind.CPU {
		return k.String()
	}
	return "cpu-clock"
}

// writePerfStack writes the functions of a sample, without its process.
func writePerfStack(out io.Writer, s *profile.Sample) {
	for i, l := range s.Location {
		if i > 0 && i == len(s.Location)-1 && isNoCode(l) {
			break
		}
		binary := unnamed
		if l.Mapping != nil && l.Mapping.File != "" {
			binary = l.Mapping.File
		}
		if len(l.Line) == 0 {
			fmt.Fprintf(out, "\t%16x [unknown] (%s)\n", l.Address, printable.Text(binary))
		}
		for j, line := range l.Line {
			name, where := unnamed, binary
			if line.Function != nil {
				name = line.Function.Name
			}
			if j < len(l.Line)-1 {
				where = "inlined"
			}
			if name == path.Base(binary)+fmt.Sprintf("+0x%x", l.Address) {
				name = unnamed // as perf does
			}
			fmt.Fprintf(out, "\t%16x %s (%s)\n", l.Address, printable.Text(name), printable.Text(where))
		}
	}
}
