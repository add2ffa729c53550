package top

import (
	"cmp"
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/flame/printable"
)

// waitRows returns rows for the threads of one process, or of all processes, with one row for threads of a process in
// the same state.
func (v *View) waitRows() []Row {
	cpu := map[int64]int64{}
	for _, c := range v.stacks {
		cpu[v.window.threads.all[c.thread].TID] += c.value
	}
	names := v.processNames()
	var out []Row
	for i := range v.waits.Threads {
		t := &v.waits.Threads[i]
		n := cpu[int64(t.TID)]
		out = append(out, Row{
			PID: int64(t.PID), TID: int64(t.TID), Process: names[t.PID], Thread: printable.Text(t.Name),
			Self: n, Total: n, waits: t,
		})
	}
	if v.waits.PID != 0 {
		return out
	}
	return joinWaits(out)
}

// processNames returns the names of the processes whose threads are shown: the names of their first threads.
func (v *View) processNames() map[uint32]string {
	names := map[uint32]string{}
	for i := range v.waits.Threads {
		if t := &v.waits.Threads[i]; t.PID == t.TID || names[t.PID] == "" {
			names[t.PID] = printable.Text(t.Name)
		}
	}
	return names
}

// joinWaits makes one row for the threads of a process in the same state. The row shows the thread that has waited
// longest.
func joinWaits(threads []Row) []Row {
	slices.SortStableFunc(threads, func(a, b Row) int { return cmp.Compare(b.waits.Off, a.waits.Off) })
	t := table{places: map[key]int{}}
	for _, r := range threads {
		r.TID, r.Thread, r.Name = 0, "", r.waits.State.String()+" "+r.waits.Wait
		self := r.Self
		r.Self, r.Total = 0, 0
		row := &t.rows[t.place(r)]
		row.Threads++
		row.Self += self
		row.Total += self
	}
	return t.rows
}

// urgency orders states: states that should not last come first.
func urgency(s kernel.ThreadState) int {
	order := []kernel.ThreadState{
		kernel.Uninterruptible, kernel.Runnable, kernel.Running, kernel.Frozen, kernel.Traced, kernel.Stopped,
		kernel.Sleeping, kernel.Idle,
	}
	return slices.Index(order, s)
}

// byState sorts the most urgent state first, then the most threads.
func byState(_ *View, a, b *Row) int {
	return cmp.Or(cmp.Compare(urgency(a.waits.State), urgency(b.waits.State)), cmp.Compare(b.Threads, a.Threads),
		cmp.Compare(b.waits.Off, a.waits.Off), compareNames(a, b))
}

// waitText returns the thread or process of a row of waits, and the innermost kernel function.
func (r *Row) waitText() string {
	text := r.Thread
	if r.Threads > 0 {
		text = r.Process
	}
	if r.waits.In == "" {
		return text
	}
	return text + "  (" + r.waits.In + ")"
}
