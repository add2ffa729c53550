package top

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/record"
)

// View is the contents of the terminal, and handles keys. It does not depend on a terminal. It is not safe for
// concurrent use.
type View struct {
	window *Window
	about  About
	now    Now
	ended  string // why sampling has ended, "" until then

	by      By
	scopes  []Scope
	back    []step
	filter  string
	pattern *regexp.Regexp // of filter, nil without one
	typing  bool           // keys edit the filter
	sorted  map[By]int     // the sort column
	reverse bool
	paused  bool
	help    bool
	upside  bool // flame graph with its root at the bottom
	message string

	rows   []Row     // of a table
	stacks []counted // within the scopes, for all views
	total  int64     // of stacks

	cursor  int     // index of a row
	chosen  key     // row that the cursor follows
	follow  bool    // chosen is set
	offset  int     // index of the first visible row
	zoom    []int32 // path in the flame graph
	at      []int32 // path of the selected box
	boxes   []box
	waits   Waits
	height  int
	columns int // of the flame graph
}

// About describes the selection of samples.
type About struct {
	What string // "process 4711 (java)"
	PID  int64  // the selected process if there is only one, else 0
	Rate int    // samples per second and CPU
}

// Now holds the values of a round other than samples.
type Now struct {
	OwnCPU  float64                // CPUs that this process has used since the last round
	Command func(pid int64) string // command line of a process; nil if unknown
}

// Waits holds the states of threads.
type Waits struct {
	PID     int64 // their process; 0: all selected processes
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

// NewView returns a View. It shows the last span of the samples added to it.
func NewView(about About, by By, span time.Duration) *View {
	v := &View{window: NewWindow(span), about: about, by: by, sorted: map[By]int{}, height: 24, columns: 80}
	if by == ByWaits {
		v.waits = Waits{PID: about.PID}
	}
	v.refresh()
	return v
}

// Add adds the samples of a round, unless the view is paused.
func (v *View) Add(p record.Part, now Now) {
	v.now = now
	if v.paused {
		v.window.Skip(p)
		return
	}
	chosen, zoom := v.framesOf(v.at), v.framesOf(v.zoom)
	v.window.Add(p)
	v.at, v.zoom = v.numbersOf(chosen), v.numbersOf(zoom) // numbers change when the window drops names
	v.refresh()
}

// SetEnded sets the reason why sampling has ended.
func (v *View) SetEnded(why string) { v.ended = why }

// SetWaits shows the states of threads, unless the view no longer needs them.
func (v *View) SetWaits(w Waits) {
	if pid, ok := v.WaitsOf(); v.paused && v.waits.Threads != nil || !ok || w.PID != pid {
		return
	}
	v.waits = w
	v.refresh()
}

// WaitsOf returns the process whose threads the view needs, 0 for all. ok is false if it needs none.
func (v *View) WaitsOf() (pid int64, ok bool) { return v.process(), v.by == ByWaits }

// process returns the shown process, 0 for several.
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

// refresh computes the contents of the view.
func (v *View) refresh() {
	v.stacks = v.window.within(v.scopes)
	v.rows = nil
	switch v.by {
	case ByFlame:
		v.stacks = v.filterStacks(v.stacks)
		v.total = sumValues(v.stacks)
		v.layFlame()
		return
	case ByWaits:
		v.rows = v.waitRows()
	default:
		v.rows = v.window.rowsBy(v.by, v.stacks)
	}
	v.total = sumValues(v.stacks)
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

// describe adds the command lines of processes.
func (v *View) describe() {
	if v.now.Command == nil || v.by != ByProcess {
		return
	}
	for i := range v.rows {
		v.rows[i].Command = v.now.Command(v.rows[i].PID)
	}
}

// shows reports whether a row passes the filter. After a binary was entered, functions of other binaries are left out.
func (v *View) shows(r *Row) bool {
	if n := len(v.scopes); n > 0 && v.by == ByFunction && v.scopes[n-1].Function == "" {
		if binary := v.scopes[n-1].Binary; binary != "" && r.Binary != binary {
			return false
		}
	}
	return v.pattern == nil || v.pattern.MatchString(r.rowText())
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

// layFlame computes the layout of the flame graph.
func (v *View) layFlame() {
	zoom := v.zoom
	if len(v.stacks) > 0 && len(zoom) > 0 {
		holds := func(c counted) bool { return len(c.frames) >= len(zoom) && slices.Equal(c.frames[:len(zoom)], zoom) }
		if !slices.ContainsFunc(v.stacks, holds) {
			zoom = nil // the zoomed path no longer exists
		}
	}
	v.boxes = nil
	if v.total > 0 {
		v.boxes = flame(slices.Clone(v.stacks), zoom, v.columns)
	}
}

// keepCursor keeps the cursor on its row, or near it.
func (v *View) keepCursor() {
	if v.follow {
		if at := slices.IndexFunc(v.rows, func(r Row) bool { return r.rowKey() == v.chosen }); at >= 0 {
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
	v.follow, v.chosen = v.cursor > 0, v.rows[v.cursor].rowKey() // a cursor at the top stays at the top
}

// selected returns the row at the cursor, nil if there is none.
func (v *View) selected() *Row {
	if v.cursor >= len(v.rows) {
		return nil
	}
	return &v.rows[v.cursor]
}

// Resize sets the size of the terminal.
func (v *View) Resize(columns, height int) {
	if columns != v.columns || height != v.height {
		v.columns, v.height = max(columns, 1), height
		if v.by == ByFlame {
			v.layFlame()
		}
	}
}

// setFilter filters by a regular expression, ignoring case. Text that is not a valid expression is matched literally.
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

// scopeText describes the scopes: "process 4711 java > sort".
func (v *View) scopeText() string {
	var parts []string
	for _, s := range v.scopes {
		parts = append(parts, s.Label)
	}
	return strings.Join(parts, " > ")
}
