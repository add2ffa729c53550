package top

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// column is a column of a table. Columns of numbers are right-aligned; the last column gets the remaining width.
type column struct {
	title   string
	width   int // 0: a text in the last column
	text    func(v *View, r *Row) string
	compare func(v *View, a, b *Row) int
}

// table returns the columns of the view, none for a flame graph. Rows are initially sorted by the first column.
func (v *View) table() []column {
	switch v.by {
	case ByProcess:
		return []column{cpuColumn(), shareColumn(), pidColumn(), nameColumn("PROCESS", (*Row).processText)}
	case ByThread:
		return []column{cpuColumn(), shareColumn(), pidColumn(), tidColumn(), nameColumn("THREAD", (*Row).threadText)}
	case ByFunction:
		return []column{cpuColumn(), selfColumn(), totalColumn(), nameColumn("FUNCTION", (*Row).functionText)}
	case ByBinary:
		return []column{cpuColumn(), selfColumn(), totalColumn(), nameColumn("BINARY", (*Row).binaryText)}
	case ByWaits:
		if v.waits.PID == 0 {
			return []column{stateColumn(), waitColumn(), threadsColumn(), sinceColumn(), cpuColumn(), pidColumn(),
				nameColumn("PROCESS (in)", (*Row).waitText)}
		}
		return []column{cpuColumn(), tidColumn(), stateColumn(), waitColumn(), sinceColumn(),
			nameColumn("THREAD (in)", (*Row).waitText)}
	}
	return nil
}

func bySelf(_ *View, a, b *Row) int {
	return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), compareNames(a, b))
}

func byTotal(_ *View, a, b *Row) int {
	return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(b.Self, a.Self), compareNames(a, b))
}

// cpuColumn is CPU time in the unit of the top program: 100 is one CPU.
func cpuColumn() column {
	return column{"CPU%", 7, func(v *View, r *Row) string { return v.formatCPU(r.Self) }, bySelf}
}

func shareColumn() column {
	return column{"SHARE", 8, func(v *View, r *Row) string { return percent(r.Self, v.total) }, bySelf}
}

func selfColumn() column {
	return column{"SELF", 8, func(v *View, r *Row) string { return percent(r.Self, v.total) }, bySelf}
}

func totalColumn() column {
	return column{"TOTAL", 8, func(v *View, r *Row) string { return percent(r.Total, v.total) }, byTotal}
}

func pidColumn() column {
	return column{"PID", 8, func(_ *View, r *Row) string { return strconv.FormatInt(r.PID, 10) },
		func(_ *View, a, b *Row) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID)) }}
}

func tidColumn() column {
	return column{"TID", 8, func(_ *View, r *Row) string { return strconv.FormatInt(r.TID, 10) },
		func(_ *View, a, b *Row) int { return cmp.Compare(a.TID, b.TID) }}
}

func stateColumn() column {
	return column{"STATE", 16, func(_ *View, r *Row) string { return r.waits.State.String() }, byState}
}

func threadsColumn() column {
	return column{"THREADS", 8, func(_ *View, r *Row) string { return strconv.Itoa(r.Threads) },
		func(v *View, a, b *Row) int { return cmp.Or(cmp.Compare(b.Threads, a.Threads), byState(v, a, b)) }}
}

func waitColumn() column {
	return column{"WAITS FOR", 14, func(_ *View, r *Row) string { return r.waits.Wait },
		func(_ *View, a, b *Row) int {
			return cmp.Or(cmp.Compare(b.waits.Wait, a.waits.Wait), compareNames(a, b))
		}}
}

// sinceColumn is the time for which a thread has been off CPU. The longest comes first.
func sinceColumn() column {
	return column{"SINCE", 9, func(_ *View, r *Row) string { return since(r) },
		func(_ *View, a, b *Row) int { return cmp.Or(cmp.Compare(b.waits.Off, a.waits.Off), compareNames(a, b)) }}
}

func nameColumn(title string, text func(*Row) string) column {
	return column{title, 0, func(_ *View, r *Row) string { return text(r) },
		func(_ *View, a, b *Row) int { return cmp.Compare(text(a), text(b)) }}
}

func (r *Row) processText() string {
	if r.Command == "" || r.Command == r.Process {
		return r.Process
	}
	return r.Process + "  " + r.Command
}

func (r *Row) threadText() string {
	if r.Thread == r.Process {
		return r.Thread
	}
	return r.Thread + "  " + r.Process
}

func (r *Row) functionText() string {
	base := path.Base(r.Binary)
	if r.Binary == "" || strings.HasPrefix(r.Name, base+"+") {
		return r.Name
	}
	return r.Name + "  " + base
}

func (r *Row) binaryText() string {
	if r.Binary == "" {
		return "(no file)"
	}
	return r.Binary
}

func since(r *Row) string {
	d := r.waits.Off
	switch {
	case r.waits.State == kernel.Running:
		return ""
	case d < 0:
		return "?"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

// formatCPU formats a value as a share of one CPU.
func (v *View) formatCPU(value int64) string {
	seconds := v.window.seconds()
	if seconds == 0 {
		return "0.0"
	}
	return strconv.FormatFloat(float64(value)/1e7/seconds, 'f', 1, 64)
}

// percent formats a part of a whole, "-" if whole is 0. It returns 100 % only if part equals whole.
func percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	p := 100 * float64(part) / float64(whole)
	if part < whole && p > 99.9 {
		p = 99.9
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}
