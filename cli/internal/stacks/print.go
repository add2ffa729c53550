package stacks

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/flame/printable"
)

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	return outfile.WriteJSON(w, r)
}

// WriteText writes the report as text. With group, it shows threads with equal stacks once.
func (r *Report) WriteText(w io.Writer, group bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Process %d: %s   (%s)\n", r.PID, printable.Text(r.Command), r.summary())
	if r.Core != nil {
		r.Core.write(&b)
	}
	for _, g := range r.groups(group) {
		g.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary describes the container of the process, and its number of threads.
func (r *Report) summary() string {
	text := "1 thread"
	if len(r.Threads) != 1 {
		text = fmt.Sprintf("%d threads", len(r.Threads))
	}
	if r.Container != "" {
		text = "container " + r.Container[:min(len(r.Container), 12)] + ", " + text
	}
	if r.Core != nil {
		text = "core file, " + text
	}
	return text
}

// state returns the text in parentheses after a thread's name.
func (t *Thread) state() string {
	text := t.State
	if t.Signal != "" {
		return t.Signal
	}
	if t.State == "running" {
		return fmt.Sprintf("running, cpu %d", t.CPU)
	}
	if t.Wait != "" {
		text += ": " + t.Wait
	}
	if t.OffSeconds != nil {
		text += ", " + duration(*t.OffSeconds)
	}
	return text
}

// duration formats seconds with the precision to which they are known: a tick of the kernel's timer.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Millisecond:
		return "less than 10 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// writeStack writes the frames, and whether the stack is complete.
func (t *Thread) writeStack(b *strings.Builder) {
	for i := range t.Frames {
		fmt.Fprintf(b, "    %s\n", t.Frames[i].String())
	}
	if t.Whole {
		b.WriteString("  [whole]\n")
	} else {
		fmt.Fprintf(b, "  [not whole: %s]\n", t.Reason)
	}
}

// String returns the frame as one line.
func (f *Frame) String() string {
	module := printable.Text(path.Base(f.Module))
	at := f.Address
	if f.Kind == Native {
		at = module + "+" + f.Address
	}
	if f.Function == "" {
		switch {
		case f.Kind == JIT && f.Module != "":
			return fmt.Sprintf("[unknown] %s (%s)", at, module)
		case f.Kind == JIT || at == "":
			return strings.TrimSpace("[unknown] " + at)
		}
		return at
	}
	where := at
	switch {
	case f.File != "" && f.Line > 0:
		where = fmt.Sprintf("%s:%d", printable.Text(path.Base(f.File)), f.Line)
	case f.File != "":
		where = printable.Text(path.Base(f.File))
	case f.Kind == Kernel:
		where = "kernel"
	case f.Kind == Interpreted:
		where = strings.Trim(module, "[]")
	}
	text := fmt.Sprintf("%s (%s)", printable.Text(f.Function), where)
	if f.Inlined {
		text += " [inlined]"
	}
	return text
}
