package top

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// write prints the view.
func (v *View) write(out io.Writer, p Tables) error {
	if p.JSON {
		return v.writeJSON(out, p.Rows)
	}
	return v.writeText(out, p)
}

// writeText prints a table, or a flame graph of p.Columns columns.
func (v *View) writeText(out io.Writer, p Tables) error {
	const unlimited = 1 << 30
	v.Resize(p.Columns, unlimited)
	rows, more := p.Rows, 0
	if v.by == ByFlame {
		rows = unlimited
	} else if rows > 0 && rows < len(v.rows) {
		more = len(v.rows) - rows
	} else {
		rows = max(len(v.rows), 1)
	}
	v.cursor, v.offset, v.at = -1, 0, nil // no selection
	w := bufio.NewWriter(out)             // Flush reports errors
	lines := append(v.headLines(), v.plainBody(rows)...)
	for i, line := range lines {
		var text strings.Builder
		for _, s := range line {
			text.WriteString(s.Text)
		}
		if trimmed := strings.TrimRight(text.String(), " "); trimmed != "" || i >= headings {
			fmt.Fprintln(w, trimmed)
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return w.Flush()
}

func (v *View) plainBody(rows int) []Line {
	if v.by == ByFlame || len(v.rows) == 0 {
		return v.bodyLines(rows)
	}
	var out []Line
	for i := range min(rows, len(v.rows)) {
		out = append(out, v.rowLine(i))
	}
	return out
}

// writeJSON prints one JSON object on one line.
func (v *View) writeJSON(out io.Writer, rows int) error {
	p, everything := v.window.progress(), v.window.totals()
	doc := tableJSON{
		Time: time.Now(), Of: v.about.What, By: v.by, Seconds: v.window.seconds(), Rate: v.about.Rate,
		Samples: p.Samples, WithUser: p.WithUser, Whole: p.Whole, Lost: p.Lost, CPU: sumValues(everything),
		Unnamed: v.window.unnamed(everything), OwnCPUs: v.now.OwnCPU, Total: v.total, Rows: []any{},
	}
	for i := range v.rows {
		if rows > 0 && i == rows {
			doc.More = len(v.rows) - rows
			break
		}
		if v.rows[i].waits != nil {
			doc.Rows = append(doc.Rows, newWaitJSON(&v.rows[i]))
			continue
		}
		doc.Rows = append(doc.Rows, &v.rows[i])
	}
	return json.NewEncoder(out).Encode(doc)
}

// tableJSON is a table. CPU times are in nanoseconds.
type tableJSON struct {
	Time     time.Time `json:"time"`
	Of       string    `json:"of"`
	By       By        `json:"by"`
	Seconds  float64   `json:"seconds"`
	Rate     int       `json:"rate"`
	Samples  uint64    `json:"samples"`
	WithUser uint64    `json:"with_user"` // samples that should have a user part
	Whole    uint64    `json:"whole"`     // samples with a complete stack
	Lost     uint64    `json:"lost"`      // samples of the whole host
	CPU      int64     `json:"cpu_ns"`
	Unnamed  int64     `json:"unnamed_ns"` // part of cpu_ns in functions without a name
	OwnCPUs  float64   `json:"own_cpus"`   // CPUs that this program used
	Total    int64     `json:"total_ns"`   // CPU time of all rows together
	Rows     []any     `json:"rows"`
	More     int       `json:"more,omitempty"` // number of omitted rows
}

// waitJSON is the wait of one thread, or of several threads of a process with the same wait. In the latter case, TID,
// Thread and CPU are left out, and In and OffSeconds belong to the thread that has waited longest.
type waitJSON struct {
	PID        int64    `json:"pid"`
	Process    string   `json:"process"`
	Threads    int      `json:"threads,omitempty"`
	TID        int64    `json:"tid,omitempty"`
	Thread     string   `json:"thread,omitempty"`
	State      string   `json:"state"`
	CPU        *uint32  `json:"cpu,omitempty"` // current CPU, or the last one
	Wait       string   `json:"wait,omitempty"`
	In         string   `json:"in,omitempty"`
	OffSeconds *float64 `json:"off_cpu_seconds,omitempty"`
	Self       int64    `json:"self"`
}

func newWaitJSON(r *Row) waitJSON {
	t := r.waits
	out := waitJSON{
		PID: r.PID, Process: r.Process, Threads: r.Threads, TID: r.TID, Thread: r.Thread, State: t.State.String(),
		Wait: t.Wait, In: t.In, Self: r.Self,
	}
	if r.Threads == 0 {
		out.CPU = &t.CPU
	}
	if t.Off >= 0 && t.State != kernel.Running {
		seconds := t.Off.Seconds()
		out.OffSeconds = &seconds
	}
	return out
}
