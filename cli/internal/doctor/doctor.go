// Package doctor checks whether a machine meets a profiler's requirements, and says how to fix problems.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/headwater/headwater/cli/internal/outfile"
)

// State is the result of a check.
type State string

// The states, best first.
const (
	OK   State = "ok"
	Warn State = "warning" // profiling works, but profiles lack something
	Bad  State = "missing" // profiling does not work
)

// Finding is one checked property.
type Finding struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"`        // the current value, in a few words
	Do    string `json:"do,omitempty"` // how to fix it, "" if all is well
}

// Report holds all findings.
type Report struct {
	Findings []Finding `json:"findings"`
	Runtimes []Runtime `json:"runtimes"` // of languages, in running processes
}

// Examine examines this machine. When ctx is done, the list of runtimes is cut short.
func Examine(ctx context.Context) *Report {
	r := &Report{Runtimes: []Runtime{}}
	for _, look := range []func() Finding{
		kernelVersion, architecture, checkBTF, pidNamespace, capabilities, lockdown, paranoid, sampleRate, kernelSymbols,
		memlock, debugFiles,
	} {
		r.Findings = append(r.Findings, look())
	}
	r.Runtimes = append(r.Runtimes, runtimes(ctx)...)
	return r
}

// Worst returns the worst state of all findings.
func (r *Report) Worst() State {
	worst := OK
	for _, f := range r.Findings {
		if f.State == Bad || f.State == Warn && worst == OK {
			worst = f.State
		}
	}
	return worst
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	return outfile.WriteJSON(w, r)
}

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %-19s %s\n", f.State, f.Name, f.Found)
		if f.Do != "" {
			fmt.Fprintf(&b, "%28s %s\n", "->", f.Do)
		}
	}
	if len(r.Runtimes) > 0 {
		b.WriteString("\nLanguage runtimes in running processes:\n")
	}
	for _, l := range r.Runtimes {
		fmt.Fprintf(&b, "%-8s %-19s %s\n", l.State, l.Name, l.where())
		if l.Hint != "" {
			fmt.Fprintf(&b, "%28s %s\n", "->", l.Hint)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
