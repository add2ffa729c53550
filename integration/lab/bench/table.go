package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// report holds the results.
type report struct {
	Rate       int          `json:"sample_rate"`
	Rounds     int          `json:"rounds"`
	Seconds    float64      `json:"seconds"`         // of one measurement
	Warm       float64      `json:"warming_seconds"` // warm-up of a workload before an agent's cost is measured
	Nice       int          `json:"nice"`            // of the programs that only burn CPU
	Contenders []identity   `json:"contenders"`
	Skipped    []string     `json:"skipped"` // measurements that were not possible, with reasons
	Lines      []line       `json:"figures"`
	Slowed     []slowedDown `json:"fixed_work"` // the data for the slow-downs

	Took map[string]float64 `json:"took"` // seconds, by part, all profilers and rounds together
}

// line is a figure with its values.
type line struct {
	figure
	Values [][]float64 `json:"values"` // by contender, by round
	Ours   *float64    `json:"median,omitempty"`
	Peer   *float64    `json:"peer_median,omitempty"`
	Ratio  *float64    `json:"ratio,omitempty"`
	Met    *bool       `json:"met,omitempty"`

	// Of a slow-down: the intervals of the medians, by contender, and the result of comparing no profiler with no
	// profiler.
	Intervals       []*interval `json:"intervals,omitempty"`
	Control         []float64   `json:"control,omitempty"`
	ControlInterval *interval   `json:"control_interval,omitempty"`

	Reasons []map[string]int `json:"incomplete,omitempty"` // numbers of samples, by contender
}

// identities returns the identities of the contenders.
func (b *bench) identities() (all []identity, err error) {
	for _, c := range b.profilers {
		id, err := c.identity(b.interval)
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, nil
}

func (b *bench) report(contenders []identity) report {
	r := report{
		Rate: b.rate, Rounds: b.rounds, Seconds: b.time.Seconds(), Warm: b.warm.Seconds(), Nice: b.nice,
		Contenders: contenders, Skipped: append([]string{}, b.skipped...), Slowed: b.slowed, Took: b.took,
	}
	for _, f := range b.figures() {
		if b.values[f.Key] == nil {
			continue
		}
		l := line{figure: f, Values: b.values[f.Key], Reasons: b.reasons[f.Key]}
		l.Ours = known(b.median(f.Key, 0))
		l.Peer = known(b.median(f.Key, 1))
		l.Ratio = known(b.ratio(f.Key))
		l.Met = known(b.isMet(f))
		r.Lines = append(r.Lines, l)
	}
	r.Lines = append(r.Lines, b.slowdownLines()...)
	return r
}

func known[T any](value T, ok bool) *T {
	if !ok {
		return nil
	}
	return &value
}

// writeText prints the table as text.
func (r report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%d Hz, %d rounds, medians\n", r.Rate, r.Rounds)
	for _, reason := range r.Skipped {
		fmt.Fprintln(w, "left out:", reason)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "figure\tunit\t%s\t", r.Contenders[0].Name)
	if len(r.Contenders) > 1 {
		fmt.Fprintf(t, "%s\tratio\t", r.Contenders[1].Name)
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
				fmt.Fprintf(w, "incomplete, %s, %s: %s\n", l.Key, r.Contenders[i].Name, mostFrequent(reasons))
			}
		}
		for i, in := range l.Intervals {
			fmt.Fprintf(w, "%s, %s: %v with 95 %% confidence; no profiler compared with none: %v\n",
				l.Title, r.Contenders[i].Name, in, l.ControlInterval)
		}
	}
	return nil
}

// mostFrequent formats the most frequent reasons, with their numbers.
func mostFrequent(reasons map[string]int) string {
	const shown = 5
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b))
	})
	var text []string
	for _, name := range names[:min(len(names), shown)] {
		text = append(text, fmt.Sprintf("%d %s", reasons[name], name))
	}
	return strings.Join(text, ", ")
}

// number formats a value with three digits, or more before the decimal point.
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

// String formats the target for the table.
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
