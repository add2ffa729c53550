package digest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/printable"
)

// Limits of a text.
const (
	MinLines = 20
	MaxLines = 1000
	maxName  = 100 // characters of a function's name
	maxWhy   = 200 // characters of the reason for missing names
	shownOf  = 3   // binaries and reasons
)

// WriteText writes the digest in at most maxLines lines, or MinLines if that is more.
func (d *Digest) WriteText(w io.Writer, maxLines int) error {
	head := d.headLines()
	left := max(maxLines, MinLines) - len(head)
	parts := [][]string{d.table("functions by self", "self", d.Functions), d.totals(), d.paths(left / 4)}
	if len(d.Processes) > 0 {
		parts = append(parts, d.plain("processes", d.Processes))
	}
	parts = append(parts, d.plain("binaries (by innermost frame)", d.Binaries))
	out := head
	for _, lines := range fit(parts, left) {
		out = append(out, lines...)
	}
	_, err := io.WriteString(w, strings.Join(out, "\n")+"\n")
	return err
}

// headLines describes the subject of the profile, and its completeness.
func (d *Digest) headLines() []string {
	return append([]string{"profile: " + short(d.About, maxWhy), d.amount()}, d.Complete.lines(d.Total)...)
}

// WriteCompleteness writes only the subject of the profile and its completeness.
func (d *Digest) WriteCompleteness(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(d.headLines(), "\n")+"\n")
	return err
}

// fit cuts parts to a total number of lines: each part gets an equal share as far as it needs it, the first part a
// double share. The first line of a part is its heading. A cut part says how many lines are missing.
func fit(parts [][]string, lines int) [][]string {
	share := make([]int, len(parts))
	for used, grown := 0, true; grown && used < lines; {
		grown = false
		for i, part := range parts {
			for range 1 + 1/(i+1) {
				if share[i] < len(part) && used < lines {
					share[i]++
					used++
					grown = true
				}
			}
		}
	}
	out := make([][]string, len(parts))
	for i, part := range parts {
		switch n := share[i]; {
		case n == len(part):
			out[i] = part
		case n >= 2:
			out[i] = append(slices.Clone(part[:n-1]), fmt.Sprintf("  and %d more", len(part)-n+1))
		}
	}
	return out
}

// amount describes the total value.
func (d *Digest) amount() string {
	if d.Unit == "nanoseconds" {
		of := d.Of // a kind of another tool
		if k, ok := kind.ByValue(d.Of); ok {
			of = kind.Of(k).Title
		}
		return fmt.Sprintf("total: %.2f s of %s", time.Duration(d.Total).Seconds(), printable.Text(of))
	}
	return fmt.Sprintf("total: %d %s", d.Total, printable.Text(d.Unit))
}

// lines describes the completeness of the profile.
func (c *Completeness) lines(total int64) []string {
	samples := "samples: unknown"
	if c.Samples >= 0 {
		samples = fmt.Sprintf("samples: %d", c.Samples)
	}
	whole := "whole stacks: unknown, the profile does not mark incomplete stacks"
	if c.Marked {
		whole = "whole stacks: " + percent(total-c.Broken, total)
	}
	lost := "lost samples: unknown"
	if c.Due > 0 {
		lost = fmt.Sprintf("lost samples: %d of %d due on the host", c.Lost, c.Due)
	}
	out := []string{"completeness: " + samples + "; " + whole + "; " + lost + "; without a name: " +
		percent(c.Unnamed, total)}
	for i, reason := range c.reasons() {
		if i == shownOf {
			break
		}
		out = append(out, fmt.Sprintf("  not whole, %s: %s", short(reason, maxWhy), percent(c.Reasons[reason], total)))
	}
	for _, e := range c.Binaries[:min(len(c.Binaries), shownOf)] {
		why := c.Why[e.Name]
		if why == "" {
			why = "the profile has no reason"
		}
		out = append(out, fmt.Sprintf("  no names in %s (%s): %s", short(e.Name, maxName), percent(e.Self, total),
			short(why, maxWhy)))
	}
	return out
}

// reasons returns the reasons for incomplete stacks, most frequent first.
func (c *Completeness) reasons() []string {
	out := slices.Sorted(maps.Keys(c.Reasons))
	slices.SortStableFunc(out, func(a, b string) int {
		return int(min(max(c.Reasons[b]-c.Reasons[a], -1), 1))
	})
	return out
}

// table lists functions with their self and total values.
func (d *Digest) table(title, by string, functions []Entry) []string {
	out := []string{fmt.Sprintf("%s (self total name binary):", title)}
	for _, e := range functions {
		if e.Self == 0 && by == "self" {
			break
		}
		out = append(out, fmt.Sprintf("  %6s %6s  %s", percent(e.Self, d.Total), percent(e.Total, d.Total), function(e)))
	}
	return out
}

// totals lists functions by their total values.
func (d *Digest) totals() []string {
	const shown = 20
	all := byTotal(d.Functions)
	return d.table("functions by total", "total", all[:min(len(all), shown)])
}

// plain lists entries that have only a value.
func (d *Digest) plain(title string, entries []Entry) []string {
	out := []string{title + ":"}
	for _, e := range entries {
		out = append(out, fmt.Sprintf("  %6s  %s", percent(e.Self, d.Total), short(e.Name, maxName)))
	}
	return out
}

// paths lists the paths of calls to the functions with the most time.
func (d *Digest) paths(most int) []string {
	out := []string{"hot paths (function <- its caller <- ..., as long as one caller has more than half):"}
	for _, e := range d.Functions {
		if len(out) > most || e.Self == 0 {
			break
		}
		path := d.callersOf(export.Frame{Name: e.Name, Binary: e.Binary})
		out = append(out, fmt.Sprintf("  %6s  %s", percent(path[len(path)-1].value, d.Total), arrows(path, " <- ")))
	}
	return out
}

// arrows formats a path.
func arrows(path []step, arrow string) string {
	var names []string
	for _, s := range path {
		names = append(names, short(s.frame.Name, 60))
	}
	return strings.Join(names, arrow)
}

// function formats a function's name and binary.
func function(e Entry) string {
	name := short(e.Name, maxName)
	where := binaryName(e.Binary)
	if e.Binary == "" || strings.HasPrefix(e.Name, where+"+") {
		return name
	}
	return name + "  " + short(where, maxName)
}

// short returns text as one line of at most the given number of characters.
func short(text string, most int) string {
	text = printable.Text(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// percent rounds down near the end: it returns 100 % only if part equals whole.
func percent(part, whole int64) string {
	p := 100 * float64(part) / float64(max(whole, 1))
	if p < 100 && p > 99.9 {
		p = 99.9
	}
	return fmt.Sprintf("%.1f%%", p)
}
