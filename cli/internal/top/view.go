package top

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/record"
)

// View is what the terminal shows, and what keys change of it. It knows no terminal. It is not safe for concurrent use.
type View struct {
	window *Window
	about  About
	now    Now
	ended  string // why nothing is sampled any more, "" as long as it is

	by      By
	scopes  []Scope
	back    []step
	filter  string
	pattern *regexp.Regexp // of filter, nil without one
	typing  bool           // keys are for the filter
	sorted  map[By]int     // the column that rows are sorted by
	reverse bool
	paused  bool
	help    bool
	upside  bool // a flame graph with its root at the bottom
	message string

	rows   []Row     // of a table
	stacks []counted // of all views, within the scopes
	total  int64     // of stacks

	cursor  int     // which row
	chosen  key     // the row that the cursor is to stay on
	follow  bool    // there is one
	offset  int     // first row that is shown
	zoom    []int32 // path in the flame graph
	at      []int32 // of the box that is selected
	boxes   []box
	waits   Waits
	height  int
	columns int // of the flame graph
}

// About says what is profiled.
type About struct {
	What string // "process 4711 (java)"
	PID  int64  // of the one process that is selected, else 0
	Rate int    // samples per second and CPU
}

// Now is what changes with every round, other than samples.
type Now struct {
	OwnCPU  float64                // CPUs that this process has used since the last round
	Command func(pid int64) string // command line of a process; nil: not known
}

// Waits is what threads do.
type Waits struct {
	PID     int64 // of their process; 0: they are all that is profiled
	Threads []record.Thread
	Err     error
}

// step is a view to go back to.
type step struct {
	by     By
	scopes []Scope
	zoom   []int32
	at     []int32
	chosen key
	follow bool
	cursor int
}

// NewView returns a View of what is added to it. It shows the last seconds of span.
func NewView(about About, by By, span time.Duration) *View {
	v := &View{window: NewWindow(span), about: about, by: by, sorted: map[By]int{}, height: 24, columns: 80}
	if by == ByWaits {
		v.waits = Waits{PID: about.PID}
	}
	v.refresh()
	return v
}

// Add adds what was sampled in a round, unless the view is paused.
func (v *View) Add(p record.Part, now Now) {
	v.now = now
	if v.paused {
		v.window.Skip(p)
		return
	}
	chosen, zoom := v.framesOf(v.at), v.framesOf(v.zoom)
	v.window.Add(p)
	v.at, v.zoom = v.numbersOf(chosen), v.numbersOf(zoom) // numbers change when names are given up
	v.refresh()
}

// SetEnded says why nothing is sampled any more.
func (v *View) SetEnded(why string) { v.ended = why }

// SetWaits shows what threads do, unless that is no longer wanted.
func (v *View) SetWaits(w Waits) {
	if pid, ok := v.WaitsOf(); v.paused && v.waits.Threads != nil || !ok || w.PID != pid {
		return
	}
	v.waits = w
	v.refresh()
}

// WaitsOf returns the process whose threads are to be looked at, 0 for all that is profiled. ok is false if none are.
func (v *View) WaitsOf() (pid int64, ok bool) { return v.process(), v.by == ByWaits }

// process returns the one process that is shown, 0 for several.
func (v *View) process() int64 {
	for _, s := range v.scopes {
		if s.PID != 0 {
			return s.PID
		}
	}
	return v.about.PID
}

func (v *View) framesOf(path []int32) (out []Frame) {
	for _, n := range path {
		out = append(out, v.window.names.all[n])
	}
	return out
}

func (v *View) numbersOf(path []Frame) (out []int32) {
	for _, f := range path {
		out = append(out, v.window.names.number(f))
	}
	return out
}

// refresh computes what is shown.
func (v *View) refresh() {
	v.stacks = v.window.within(v.scopes)
	v.rows = nil
	switch v.by {
	case ByFlame:
		v.stacks = v.filterStacks(v.stacks)
		v.total = sum(v.stacks)
		v.layFlame()
		return
	case ByWaits:
		v.rows = v.waitRows()
	default:
		v.rows = v.window.rows(v.by, v.stacks)
	}
	v.total = sum(v.stacks)
	v.describe()
	v.rows = slices.DeleteFunc(v.rows, func(r Row) bool { return !v.shows(&r) })
	column := v.table()[v.sorted[v.by]]
	slices.SortStableFunc(v.rows, func(a, b Row) int {
		if v.reverse {
			a, b = b, a
		}
		return column.compare(v, &a, &b)
	})
	v.keepCursor()
}

// describe adds the commands of processes.
func (v *View) describe() {
	if v.now.Command == nil || v.by != ByProcess {
		return
	}
	for i := range v.rows {
		v.rows[i].Command = v.now.Command(v.rows[i].PID)
	}
}

// shows reports whether a row passes the filter. Functions of another binary are left out where one was entered.
func (v *View) shows(r *Row) bool {
	if n := len(v.scopes); n > 0 && v.by == ByFunction && v.scopes[n-1].Function == "" {
		if binary := v.scopes[n-1].Binary; binary != "" && r.Binary != binary {
			return false
		}
	}
	return v.pattern == nil || v.pattern.MatchString(r.text())
}

// filterStacks returns the stacks with a function or binary that passes the filter.
func (v *View) filterStacks(stacks []counted) []counted {
	if v.pattern == nil {
		return stacks
	}
	passes := make([]bool, len(v.window.names.all))
	for i, f := range v.window.names.all {
		passes[i] = v.pattern.MatchString(f.Name + "\n" + f.Binary)
	}
	return slices.DeleteFunc(stacks, func(c counted) bool {
		return !slices.ContainsFunc(c.frames, func(n int32) bool { return passes[n] })
	})
}

// layFlame lays the flame graph out.
func (v *View) layFlame() {
	zoom := v.zoom
	if len(v.stacks) > 0 && len(zoom) > 0 {
		holds := func(c counted) bool { return len(c.frames) >= len(zoom) && slices.Equal(c.frames[:len(zoom)], zoom) }
		if !slices.ContainsFunc(v.stacks, holds) {
			zoom = nil // nothing of it is left now
		}
	}
	v.boxes = nil
	if v.total > 0 {
		v.boxes = flame(slices.Clone(v.stacks), zoom, v.columns)
	}
}

// keepCursor puts the cursor on the row that it was on, or near to it.
func (v *View) keepCursor() {
	if v.follow {
		if at := slices.IndexFunc(v.rows, func(r Row) bool { return r.key() == v.chosen }); at >= 0 {
			v.cursor = at
		}
	}
	v.cursor = max(0, min(v.cursor, len(v.rows)-1))
}

// choose moves the cursor.
func (v *View) choose(at int) {
	if len(v.rows) == 0 {
		return
	}
	v.cursor = max(0, min(at, len(v.rows)-1))
	v.follow, v.chosen = v.cursor > 0, v.rows[v.cursor].key() // at the top, it stays there
}

// selected returns the row of the cursor, nil if there is none.
func (v *View) selected() *Row {
	if v.cursor >= len(v.rows) {
		return nil
	}
	return &v.rows[v.cursor]
}

// Resize says how large the terminal is.
func (v *View) Resize(columns, height int) {
	if columns != v.columns || height != v.height {
		v.columns, v.height = max(columns, 1), height
		if v.by == ByFlame {
			v.layFlame()
		}
	}
}

// setFilter shows what a regular expression fits, whatever case it has. What is no such expression stands for itself.
func (v *View) setFilter(text string) {
	v.filter, v.pattern = text, nil
	if text != "" {
		pattern, err := regexp.Compile("(?i)" + text)
		if err != nil {
			pattern = regexp.MustCompile("(?i)" + regexp.QuoteMeta(text))
		}
		v.pattern = pattern
	}
	v.refresh()
}

// scopeText says what the view is of: "process 4711 java > sort".
func (v *View) scopeText() string {
	var parts []string
	for _, s := range v.scopes {
		parts = append(parts, s.Label)
	}
	return strings.Join(parts, " > ")
}
