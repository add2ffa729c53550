package top

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/ebpf/trie"
)

// By is what CPU time is divided by.
type By string

// What a view shows.
const (
	ByProcess  By = "process"
	ByThread   By = "thread"
	ByFunction By = "function"
	ByBinary   By = "binary"
	ByFlame    By = "flame" // a flame graph
	ByWaits    By = "waits" // what threads wait for
)

// Views lists what there is, in the order of the Tab key.
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
	Self    int64  `json:"self"`  // of the samples that end in it
	Total   int64  `json:"total"` // of the samples that have it

	Kind    trie.Kind      `json:"-"`
	Threads int            `json:"-"` // of waits: how many there are; 0 of a row of one thread
	waits   *record.Thread // what it does, or the one of them that has done so for longest
}

// key is what a row is of, whatever its values are.
type key struct {
	pid, tid     int64
	name, binary string
}

func (r *Row) key() key { return key{r.PID, r.TID, r.Name, r.Binary} }

// text is what a filter looks at.
func (r *Row) text() string {
	texts := []string{r.Process, r.Thread, r.Command, r.Name, r.Binary}
	if r.waits != nil {
		texts = append(texts, r.waits.State.String(), r.waits.Wait, r.waits.In)
	}
	return strings.Join(texts, "\n")
}

// Scope says which samples count: those that fit all that is set.
type Scope struct {
	PID, TID int64  // 0: any
	Label    string // what a title calls them
	Function string // with this function of Binary on their stack
	Binary   string // with a frame of this file on their stack
}

// holds reports whether a stack is of the scope.
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

// within returns the stacks of all scopes.
func (w *Window) within(scopes []Scope) (out []counted) {
	for _, c := range w.totals() {
		if !slices.ContainsFunc(scopes, func(s Scope) bool { return !w.holds(s, c) }) {
			out = append(out, c)
		}
	}
	return out
}

// rows divides stacks, most self first.
func (w *Window) rows(by By, stacks []counted) []Row {
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

// place returns where the row of a key is.
func (t *table) place(r Row) int {
	at, ok := t.places[r.key()]
	if !ok {
		at = len(t.rows)
		t.rows = append(t.rows, r)
		t.places[r.key()] = at
	}
	return at
}

// byThread adds up stacks by what is made of their thread. The name of a process is the latest one.
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

// byFrame adds up stacks by what is made of their frames that are code.
func (w *Window) byFrame(stacks []counted, of func(Frame) Row) []Row {
	t := table{places: map[key]int{}}
	places := make([]int, len(w.names.all)) // by number of the frame; 0: not met yet, else one more than the place
	met := make([]int, len(w.names.all))    // by place: one more than the stack that it was met in last
	for i, c := range stacks {
		for j, n := range c.frames {
			leaf := j == len(c.frames)-1
			if w.names.all[n].Kind == trie.Other && !leaf { // the name of a process
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

// sum returns the value of stacks.
func sum(stacks []counted) (value int64) {
	for _, c := range stacks {
		value += c.value
	}
	return value
}

// unnamed returns the value of the stacks whose leaf has no name.
func (w *Window) unnamed(stacks []counted) (value int64) {
	for _, c := range stacks {
		if w.names.all[c.frames[len(c.frames)-1]].Kind == trie.Unnamed {
			value += c.value
		}
	}
	return value
}
