package top

import (
	"fmt"
	"path"
	"slices"
	"unicode/utf8"
)

// Action is an action of a key that a View cannot perform itself.
type Action int

// The actions.
const (
	None Action = iota
	Quit
	Save    // write the kept samples to a file
	Suspend // stop the process, like Ctrl-Z
)

// Key handles a key: a letter, or a name such as "Enter" or "Ctrl-C".
func (v *View) Key(name string) Action {
	v.message = ""
	switch {
	case name == "Ctrl-C":
		return Quit
	case name == "Ctrl-Z":
		return Suspend
	case v.typing:
		v.typeKey(name)
		return None
	case v.help:
		v.help = false
		return None
	}
	switch name {
	case "q":
		return Quit
	case "r":
		return Save
	}
	if !v.switchKey(name) && !v.optionKey(name) {
		v.moveKey(name)
	}
	return None
}

// typeKey edits the filter.
func (v *View) typeKey(name string) {
	switch name {
	case "Enter":
		v.typing = false
	case "Esc":
		v.typing = false
		v.setFilter("")
	case "Backspace":
		_, n := utf8.DecodeLastRuneInString(v.filter)
		v.setFilter(v.filter[:len(v.filter)-n])
	default:
		const most = 200
		if utf8.RuneCountInString(name) == 1 && len(v.filter) < most {
			v.setFilter(v.filter + name)
		}
	}
}

// switchKey switches to another view.
func (v *View) switchKey(name string) bool {
	views := map[string]By{"p": ByProcess, "t": ByThread, "f": ByFunction, "b": ByBinary, "g": ByFlame}
	by, ok := views[name]
	switch {
	case ok:
		v.showTable(by)
	case name == "w":
		v.enterWaits(v.chosenProcess())
	case name == "W":
		v.scopes, v.back = nil, nil
		v.enterWaits(v.about.PID)
	case name == "Tab":
		v.showTable(v.nextTable())
	default:
		return false
	}
	return true
}

// nextTable returns the view after the current one.
func (v *View) nextTable() By {
	views := Views()
	return views[(slices.Index(views, v.by)+1)%len(views)]
}

// showTable switches to another view of the same samples.
func (v *View) showTable(by By) {
	v.by, v.cursor, v.offset, v.follow = by, 0, 0, false
	if pid, ok := v.WaitsOf(); ok {
		v.waits = Waits{PID: pid} // the present data may belong to another process
	}
	v.refresh()
}

// chosenProcess returns the process at the cursor, or else the shown process; 0 for all.
func (v *View) chosenProcess() int64 {
	if r := v.selected(); r != nil && r.PID != 0 && v.by != ByFlame {
		return r.PID
	}
	return v.process()
}

// enterWaits shows the waits of the threads of a process, or of all threads if pid is 0.
func (v *View) enterWaits(pid int64) {
	if v.process() != pid {
		v.enter(ByWaits, Scope{PID: pid, Label: v.processLabel(pid)})
	} else {
		v.showTable(ByWaits)
	}
}

func (v *View) processLabel(pid int64) string {
	name := ""
	for _, t := range v.window.threads.all {
		if t.PID == pid {
			name = " " + t.Process
		}
	}
	return fmt.Sprintf("process %d%s", pid, name)
}

// optionKey changes a display option.
func (v *View) optionKey(name string) bool {
	switch name {
	case " ":
		v.paused = !v.paused
	case "/":
		v.typing = true
	case "s":
		v.sorted[v.by] = (v.sorted[v.by] + 1) % max(len(v.table()), 1)
		v.choose(0)
	case "S":
		v.reverse = !v.reverse
		v.choose(0)
	case "i":
		v.upside = !v.upside
	case "c":
		v.window.Clear()
		v.zoom, v.at, v.boxes = nil, nil, nil
	case "?", "h":
		v.help = true
		return true
	default:
		return false
	}
	if name == "s" || name == "S" || name == "c" {
		v.refresh()
	}
	return true
}

// moveKey moves the cursor, or enters or leaves the selected entry.
func (v *View) moveKey(name string) {
	page := max(v.body()-1, 1)
	steps := map[string]int{"Up": -1, "k": -1, "Down": 1, "j": 1, "PgUp": -page, "PgDn": page}
	switch {
	case name == "Enter":
		v.openRow()
	case name == "Esc", name == "Backspace":
		v.goBack()
	case v.by == ByFlame:
		v.moveFlame(name)
	case name == "Home":
		v.choose(0)
	case name == "End":
		v.choose(len(v.rows) - 1)
	case steps[name] != 0:
		v.choose(v.cursor + steps[name])
	}
}

// enter restricts the view to a part of the samples.
func (v *View) enter(by By, s Scope) {
	v.back = append(v.back, step{v.by, v.scopes, v.zoom, v.at, v.chosen, v.follow, v.cursor})
	v.scopes = append(slices.Clip(v.scopes), s)
	v.zoom, v.at = nil, nil
	v.setFilter("")
	v.showTable(by)
}

// openRow enters the selected row: a process shows its functions, a function its callers and callees.
func (v *View) openRow() {
	if v.by == ByFlame {
		v.zoom = slices.Clone(v.at)
		v.layFlame()
		return
	}
	r := v.selected()
	switch {
	case r == nil:
	case v.by == ByProcess:
		v.enter(ByFunction, Scope{PID: r.PID, Label: fmt.Sprintf("process %d %s", r.PID, r.Process)})
	case v.by == ByWaits && r.Threads > 0:
		v.enterWaits(r.PID)
	case v.by == ByThread, v.by == ByWaits:
		v.enter(ByFunction, Scope{PID: r.PID, TID: r.TID, Label: fmt.Sprintf("thread %d %s", r.TID, r.Thread)})
	case v.by == ByBinary:
		v.enter(ByFunction, Scope{Binary: r.Binary, Label: path.Base(r.Binary)})
	case v.by == ByFunction:
		v.enter(ByFlame, Scope{Function: r.Name, Binary: r.Binary, Label: r.Name})
	}
}

// goBack undoes the last enter.
func (v *View) goBack() {
	switch n := len(v.back); {
	case v.filter != "":
		v.setFilter("")
	case v.by == ByFlame && len(v.zoom) > 0:
		v.zoom = v.zoom[:len(v.zoom)-1]
		v.layFlame()
	case n > 0:
		s := v.back[n-1]
		v.back = v.back[:n-1]
		v.scopes, v.zoom, v.at = s.scopes, s.zoom, s.at
		v.showTable(s.by)
		v.chosen, v.follow, v.cursor = s.chosen, s.follow, s.cursor
		v.keepCursor()
	}
}

// moveFlame selects an adjacent box: below, above, to the left or to the right.
func (v *View) moveFlame(name string) {
	if len(v.boxes) == 0 {
		return
	}
	at := findBox(v.boxes, v.at)
	up, down := v.boxes[at].parent, at+1
	if down >= len(v.boxes) || v.boxes[down].parent != at {
		down = -1
	}
	if v.upside {
		up, down = down, up
	}
	to := -1
	switch name {
	case "Up", "k":
		to = up
	case "Down", "j":
		to = down
	case "Right":
		to = v.aside(at, 1)
	case "Left":
		to = v.aside(at, -1)
	case "Home":
		to = 0
	}
	if to >= 0 {
		v.at = pathOf(v.boxes, to)
	}
}

// aside returns the next box of the same depth in a direction, -1 if there is none.
func (v *View) aside(at, direction int) int {
	for i := at + direction; i >= 0 && i < len(v.boxes); i += direction {
		if v.boxes[i].depth == v.boxes[at].depth {
			return i
		}
	}
	return -1
}
