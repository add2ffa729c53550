package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// report is what was measured.
type report struct {
	Machine    string   `json:"machine"`
	Load       []string `json:"load_average"`  // before and after
	Steal      float64  `json:"steal_percent"` // CPU that the hypervisor gave to others
	Rate       int      `json:"sample_rate"`
	Rounds     int      `json:"rounds"`
	Contenders []string `json:"contenders"`
	Skipped    []string `json:"skipped,omitempty"`
	Lines      []line   `json:"figures"`
}

// line is a figure with its values.
type line struct {
	figure
	Values [][]float64 `json:"values"` // by contender, by round
	Ours   *float64    `json:"median,omitempty"`
	Peer   *float64    `json:"peer_median,omitempty"`
	Ratio  *float64    `json:"ratio,omitempty"`
	Met    *bool       `json:"met,omitempty"`

	Reasons []map[string]int `json:"incomplete,omitempty"` // samples, by contender
}

// conditions are what else goes on.
type conditions struct {
	load         string
	steal, total uint64
}

func readConditions() conditions {
	stat, _ := os.ReadFile("/proc/stat")
	c := conditions{load: loadAverage()}
	c.steal, c.total = parseSteal(string(stat))
	return c
}

func (b *bench) report(before, after conditions) report {
	r := report{Machine: machine(), Load: []string{before.load, after.load}, Rate: b.rate, Rounds: b.rounds, Skipped: b.skipped}
	r.Steal = 100 * float64(after.steal-before.steal) / float64(max(after.total-before.total, 1))
	for _, c := range b.profilers {
		r.Contenders = append(r.Contenders, c.name)
	}
	for _, f := range b.figures() {
		if b.values[f.Key] == nil {
			continue
		}
		l := line{figure: f, Values: b.values[f.Key], Reasons: b.reasons[f.Key]}
		l.Ours = known(b.median(f.Key, 0))
		l.Peer = known(b.median(f.Key, 1))
		l.Ratio = known(b.ratio(f.Key))
		l.Met = known(b.met(f))
		r.Lines = append(r.Lines, l)
	}
	return r
}

func known[T any](value T, ok bool) *T {
	if !ok {
		return nil
	}
	return &value
}

// machine tells what the figures are of.
func machine() string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	return fmt.Sprintf("Linux %s, %d CPUs, %s", unix.ByteSliceToString(name.Release[:]), runtime.NumCPU(), runtime.GOARCH)
}

func (r report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "\t")
	return encoder.Encode(r)
}

// save writes the report to a file.
func (r report) save(path string) error {
	var text bytes.Buffer
	if err := r.writeJSON(&text); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// writeText prints the table for people.
func (r report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s; %d Hz, %d rounds, medians; load average %s; %.1f %% stolen\n", r.Machine, r.Rate, r.Rounds, strings.Join(r.Load, ", then "), r.Steal)
	for _, reason := range r.Skipped {
		fmt.Fprintln(w, "left out:", reason)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "figure\tunit\t%s\t", r.Contenders[0])
	if len(r.Contenders) > 1 {
		fmt.Fprintf(t, "%s\tratio\t", r.Contenders[1])
	}
	fmt.Fprintln(t, "target\tmet")
	for _, l := range r.Lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t", l.Title, l.Unit, number(l.Ours))
		if len(r.Contenders) > 1 {
			fmt.Fprintf(t, "%s\t%s\t", number(l.Peer), number(l.Ratio))
		}
		fmt.Fprintf(t, "%s\t%s\n", l.Aim, verdict(l.Met))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range r.Lines {
		for i, reasons := range l.Reasons {
			if len(reasons) > 0 {
				fmt.Fprintf(w, "incomplete, %s, %s: %s\n", l.Key, r.Contenders[i], mostFrequent(reasons))
			}
		}
	}
	return nil
}

// mostFrequent prints the reasons that came up most, with their numbers.
func mostFrequent(reasons map[string]int) string {
	const shown = 5
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b)) })
	var text []string
	for _, name := range names[:min(len(names), shown)] {
		text = append(text, fmt.Sprintf("%d %s", reasons[name], name))
	}
	return strings.Join(text, ", ")
}

// number prints three digits, or more before the point.
func number(v *float64) string {
	switch {
	case v == nil:
		return ""
	case *v >= 100 || *v <= -100:
		return fmt.Sprintf("%.0f", *v)
	case *v >= 10 || *v <= -10:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.2f", *v)
}

func verdict(met *bool) string {
	switch {
	case met == nil:
		return ""
	case *met:
		return "yes"
	}
	return "NO"
}

// String is the target as the table shows it.
func (t *target) String() string {
	if t == nil {
		return ""
	}
	switch t.Kind {
	case "ratio":
		return fmt.Sprintf("ratio <= %.2f", t.Value)
	case "most":
		return fmt.Sprintf("<= %v", t.Value)
	}
	return fmt.Sprintf(">= %v", t.Value)
}
