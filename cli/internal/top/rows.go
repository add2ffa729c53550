package top

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/tree"
)

// By is the entry that CPU time is attributed to.
type By string

// The views.
const (
	ByProcess  By = "process"
	ByThread   By = "thread"
	ByFunction By = "function"
	ByBinary   By = "binary"
	ByFlame    By = "flame" // a flame graph
	ByWaits    By = "waits" // what threads wait for
)

// Views lists the views, in the order of the Tab key.
func Views() []By { return []By{ByProcess, ByThread, ByFunction, ByBinary, ByFlame, ByWaits} }

// Row is a line of a table: a process, thread, function or binary. Values are nanoseconds of CPU.
type Row struct {
	PID     int64  `json:"pid,omitempty"`
	TID     int64  `json:"tid,omitempty"`
	Process string `json:"process,omitempty"`
	Thread  string `json:"thread,omitempty"`
	Command string `json:"command,omitempty"` // of a process, as ps shows it
	Name    string `json:"function,omitempty"`
	Binary  string `json:"binary,omitempty"`
	Self    int64  `json:"self"`  // value of the samples that end in it
	Total   int64  `json:"total"` // value of the samples that contain it

	Kind    tree.Kind      `json:"-"`
	Threads int            `json:"-"` // of waits: number of threads; 0 in a row of one thread
	waits   *record.Thread // the thread's state, or the state of the thread that has waited longest
}

// key identifies a row independently of its values.
type key struct {
	pid, tid     int64
	name, binary string
}

func (r *Row) rowKey() key { return key{r.PID, r.TID, r.Name, r.Binary} }

// rowText returns the text that a filter searches.
func (r *Row) rowText() string {
	texts := []string{r.Process, r.Thread, r.Command, r.Name, r.Binary}
	if r.waits != nil {
		texts = append(texts, r.waits.State.String(), r.waits.Wait, r.waits.In)
	}
	return strings.Join(texts, "\n")
}

// Scope selects samples: those that match all fields that are set.
type Scope struct {
	PID, TID int64  // 0: any
	Label    string // for a title
	Function string // stacks with this function of Binary
	Binary   string // stacks with a frame in this file
}

// holds reports whether a stack matches the scope.
func (w *Window) holds(s Scope, c counted) bool {
	t := &w.threads.all[c.thread]
	if s.PID != 0 && s.PID != t.PID || s.TID != 0 && s.TID != t.TID {
		return false
	}
	if s.Function == "" && s.Binary == "" {
		return true
	}
	return slices.ContainsFunc(c.frames, func(n int32) bool {
		f := &w.names.all[n]
		return f.Binary == s.Binary && (s.Function == "" || s.Function == f.Name)
	})
}

// within returns the stacks that match all scopes.
func (w *Window) within(scopes []Scope) (out []counted) {
	for _, c := range w.totals() {
		if !slices.ContainsFunc(scopes, func(s Scope) bool { return !w.holds(s, c) }) {
			out = append(out, c)
		}
	}
	return out
}

// rowsBy divides stacks into rows, most self first.
func (w *Window) rowsBy(by By, stacks []counted) []Row {
	var out []Row
	switch by {
	case ByProcess:
		out = w.byThread(stacks, func(t Thread) Row { return Row{PID: t.PID, Process: t.Process} })
	case ByThread:
		out = w.byThread(stacks, func(t Thread) Row {
			return Row{PID: t.PID, TID: t.TID, Process: t.Process, Thread: t.Name}
		})
	case ByFunction:
		out = w.byFrame(stacks, func(f Frame) Row { return Row{Name: f.Name, Binary: f.Binary, Kind: f.Kind} })
	case ByBinary:
		out = w.byFrame(stacks, func(f Frame) Row { return Row{Binary: f.Binary, Kind: f.Kind} })
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), compareNames(&a, &b))
	})
	return out
}

func compareNames(a, b *Row) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(path.Base(a.Binary), path.Base(b.Binary)),
		cmp.Compare(a.Binary, b.Binary), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread),
		cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID))
}

// table adds up rows by their key.
type table struct {
	rows   []Row
	places map[key]int
}

// place returns the index of the row with a key.
func (t *table) place(r Row) int {
	at, ok := t.places[r.rowKey()]
	if !ok {
		at = len(t.rows)
		t.rows = append(t.rows, r)
		t.places[r.rowKey()] = at
	}
	return at
}

// byThread adds up stacks by the row for their thread. A process gets its most recent name.
func (w *Window) byThread(stacks []counted, of func(Thread) Row) []Row {
	t := table{places: map[key]int{}}
	for _, c := range stacks {
		r := of(w.threads.all[c.thread])
		at := t.place(r)
		row := &t.rows[at]
		row.Process, row.Thread = r.Process, r.Thread
		row.Self += c.value
		row.Total += c.value
	}
	return t.rows
}

// byFrame adds up stacks by the rows for their frames that are code.
func (w *Window) byFrame(stacks []counted, of func(Frame) Row) []Row {
	t := table{places: map[key]int{}}
	places := make([]int, len(w.names.all)) // by frame number; 0 if not seen yet, else index + 1
	met := make([]int, len(w.names.all))    // by row index: number + 1 of the last stack with the row
	for i, c := range stacks {
		for j, n := range c.frames {
			leaf := j == len(c.frames)-1
			if w.names.all[n].Kind == tree.Other && !leaf { // the name of a process
				continue
			}
			if places[n] == 0 {
				places[n] = t.place(of(w.names.all[n])) + 1
			}
			at := places[n] - 1
			if leaf {
				t.rows[at].Self += c.value
			}
			if met[at] != i+1 {
				met[at] = i + 1
				t.rows[at].Total += c.value
			}
		}
	}
	return t.rows
}

// sumValues returns the value of stacks.
func sumValues(stacks []counted) (value int64) {
	for _, c := range stacks {
		value += c.value
	}
	return value
}

// unnamed returns the value of the stacks whose leaf has no name.
func (w *Window) unnamed(stacks []counted) (value int64) {
	for _, c := range stacks {
		if w.names.all[c.frames[len(c.frames)-1]].Kind == tree.Unnamed {
			value += c.value
		}
	}
	return value
}
