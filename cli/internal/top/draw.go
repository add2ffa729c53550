package top

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/headwater/headwater/flame/printable"
	"github.com/headwater/headwater/flame/tree"
)

// Style is the style of a text.
type Style struct {
	Look Look
	Kind tree.Kind // color of the text, or, with Box, the background color
}

// Look is a Style without color.
type Look uint8

// The looks.
const (
	Plain Look = iota
	Faint
	Title    // the name of the program
	Head     // of a table
	Selected // the row or box of the cursor
	Colored  // has the color of its kind
	Box      // of a flame graph
	Warning
)

// Span is a text of one style.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of the terminal.
type Line []Span

func styledText(look Look, format string, args ...any) Span {
	return Span{fmt.Sprintf(format, args...), Style{Look: look}}
}

// Lines returns the contents of the terminal: one line for each of its lines, none wider than the terminal.
func (v *View) Lines() []Line {
	var out []Line
	switch {
	case v.help:
		out = helpLines()
	default:
		out = append(v.headLines(), v.bodyLines(v.body())...)
	}
	for len(out) < v.height-1 {
		out = append(out, nil)
	}
	out = append(out[:max(v.height-1, 0)], v.lastLine())
	for i := range out {
		out[i] = cutLine(out[i], v.columns)
	}
	return out
}

// headings is the number of lines above the body.
const headings = 4

// body is the number of lines of the body.
func (v *View) body() int { return max(v.height-headings-1, 0) }

func (v *View) headLines() []Line {
	title := Line{styledText(Title, "headwater top"), styledText(Plain, "  %s  last %.0f s at %d Hz  by %s", v.about.What,
		v.window.seconds(), v.about.Rate, v.by)}
	if v.paused {
		title = append(title, styledText(Plain, "  "), styledText(Warning, "paused"))
	}
	return []Line{title, {styledText(Plain, "%s", v.Honesty())}, v.scopeLine(), v.tableHead()}
}

// Honesty describes how complete the view is: the number of samples, the share of complete stacks, the samples that the
// whole host has lost, and the share of time in functions without a name; and the CPU use of this program.
func (v *View) Honesty() string {
	p := v.window.progress()
	all := v.window.totals()
	return fmt.Sprintf("%s samples  %s CPUs busy  %s of stacks whole  %s lost  %s without a name  own CPU %.1f %%",
		count(p.Samples), v.busyCPUs(), percent(int64(p.Whole), int64(p.WithUser)), count(p.Lost),
		percent(v.window.unnamed(all), sumValues(all)), 100*v.now.OwnCPU)
}

// busyCPUs returns the average number of CPUs that the shown processes use.
func (v *View) busyCPUs() string {
	return strconv.FormatFloat(float64(sumValues(v.window.totals()))/1e9/max(v.window.seconds(), 1e-9), 'f', 2, 64)
}

func (v *View) scopeLine() Line {
	var out Line
	if text := v.scopeText(); text != "" {
		out = append(out, styledText(Plain, "in "), styledText(Title, "%s", text), styledText(Plain, "  "))
	}
	switch {
	case v.typing:
		out = append(out, styledText(Plain, "filter: "), styledText(Title, "%s", printable.Text(v.filter)),
			styledText(Selected, " "))
	case v.filter != "":
		out = append(out, styledText(Plain, "filter: "), styledText(Title, "%s", printable.Text(v.filter)))
	}
	return out
}

// tableHead returns the line with the column titles. The sort column has an arrow.
func (v *View) tableHead() Line {
	if v.by == ByFlame {
		return v.flameHead()
	}
	var b strings.Builder
	for i, c := range v.table() {
		title := c.title
		if i == v.sorted[v.by] {
			arrow := "▼"
			if v.reverse {
				arrow = "▲"
			}
			title = arrow + title
		}
		b.WriteString(align(title, c.width))
		b.WriteByte(' ')
	}
	return Line{styledText(Head, "%s", padText(b.String(), v.columns))}
}

// bodyLines returns the rows or boxes that fit into height lines.
func (v *View) bodyLines(height int) []Line {
	switch {
	case v.by == ByFlame:
		return v.flameLines(height)
	case v.by == ByWaits && v.waits.Err != nil:
		return []Line{{styledText(Warning, "%v", v.waits.Err)}}
	case len(v.rows) == 0:
		return []Line{{styledText(Faint, "%s", v.nothing())}}
	}
	if v.cursor < v.offset {
		v.offset = v.cursor
	}
	if v.cursor >= v.offset+height {
		v.offset = v.cursor - height + 1
	}
	v.offset = max(0, min(v.offset, len(v.rows)-height))
	var out []Line
	for i := v.offset; i < min(len(v.rows), v.offset+height); i++ {
		out = append(out, v.rowLine(i))
	}
	return out
}

// nothing explains why there are no rows.
func (v *View) nothing() string {
	switch {
	case len(v.window.parts) == 0:
		return "sampling ..."
	case v.filter != "":
		return "no row matches the filter; Esc clears it"
	case v.by == ByWaits:
		return "no threads: the process has ended, or its threads are being read"
	}
	return "no samples: the shown processes used no CPU time"
}

func (v *View) rowLine(i int) Line {
	r := &v.rows[i]
	var numbers strings.Builder
	last := ""
	for _, c := range v.table() {
		if c.width == 0 {
			last = printable.Text(c.text(v, r))
			continue
		}
		numbers.WriteString(align(c.text(v, r), c.width))
		numbers.WriteByte(' ')
	}
	if i == v.cursor {
		return Line{styledText(Selected, "%s", padText(numbers.String()+last, v.columns))}
	}
	name, rest, _ := strings.Cut(last, "  ")
	out := Line{styledText(Plain, "%s", numbers.String()), Span{name, Style{Colored, r.Kind}}}
	if rest != "" {
		out = append(out, styledText(Faint, "  %s", rest))
	}
	return out
}

// lastLine returns a message, or the available keys.
func (v *View) lastLine() Line {
	switch {
	case v.message != "":
		return Line{styledText(Title, "%s", v.message)}
	case v.typing:
		return Line{styledText(Faint, "Enter keeps the filter, Esc clears it")}
	case v.help:
		return Line{styledText(Faint, "any key goes back")}
	case v.ended != "":
		return Line{styledText(Warning, "%s", v.ended), styledText(Faint, "  r record to file  q quit")}
	}
	return Line{styledText(Faint, "q quit  ? help  p t f b g W views  Enter open  Esc back  / filter  s sort  "+
		"Space pause  r record")}
}

func helpLines() []Line {
	lines := []string{
		"p t f b      by process, thread, function, binary; Tab goes through them",
		"g            flame graph; i turns it over",
		"w            waits of the threads of the selected process, and their durations;",
		"             W shows the waits of all processes, the most urgent first",
		"Enter        open: the functions of a process, thread or binary; the callers of a function;",
		"             in a flame graph, zoom to the box",
		"Esc          back: clear the filter, zoom out, close the opened row",
		"Up Down      move; PgUp, PgDn, Home and End too; j and k as well",
		"Left Right   move in a flame graph",
		"/            filter by a regular expression",
		"s S          sort by the next column; reverse the order",
		"Space        pause: no samples are added until Space is pressed again",
		"c            clear all samples",
		"r            record: write the kept samples to a pprof file in the current folder",
		"q Ctrl-C     quit",
		"",
		"CPU% is relative to one CPU. SELF counts samples that end in a function, TOTAL samples that contain it.",
		"The second line shows data quality: share of whole stacks, lost samples of this host, share of time in",
		"functions without a name, and CPU time of top itself.",
	}
	var out []Line
	for _, text := range lines {
		key, rest, _ := strings.Cut(text, "  ")
		if len(text) < 13 || text[0] == ' ' || text[12] != ' ' {
			out = append(out, Line{styledText(Plain, "%s", text)})
			continue
		}
		out = append(out, Line{styledText(Title, "%s", key), styledText(Plain, "  %s", rest)})
	}
	return out
}

// align aligns a number to the right of a narrow column, and a text to the left of a wide one. A text that is as wide
// as the column, or wider, stays unchanged.
func align(text string, width int) string {
	const wide = 9 // columns of texts are wider
	free := width - displaywidth.String(text)
	switch {
	case free <= 0:
		return text
	case width > wide:
		return text + strings.Repeat(" ", free)
	}
	return strings.Repeat(" ", free) + text
}

// padText pads or shortens a text to a width.
func padText(text string, width int) string {
	text = displaywidth.TruncateString(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-displaywidth.String(text)))
}

// cutLine shortens a line to a width.
func cutLine(line Line, width int) (out Line) {
	for _, s := range line {
		w := displaywidth.String(s.Text)
		if w > width {
			if width > 0 {
				s.Text = displaywidth.TruncateString(s.Text, width, "…")
				out = append(out, s)
			}
			return out
		}
		width -= w
		out = append(out, s)
	}
	return out
}

// count formats 1234567 as 1,234,567.
func count(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
