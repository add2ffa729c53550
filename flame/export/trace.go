package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// traceEvent is an event of the Trace Event Format of chrome://tracing and ui.perfetto.dev: at ts, "B" starts a
// function inside the innermost open function, "E" ends the innermost open function, and "M" names a process or thread.
// Events with a duration are not used: their order does not show the caller if caller and callee take equally long.
type traceEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // µs after the first sample
	PID   int64          `json:"pid"`
	TID   int64          `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// maxTraceName is the maximum length of a name, which every event repeats.
const maxTraceName = 300

// Trace writes a track for each thread with the functions that ran there, root on top. A function lasts from its first
// sample to the next sample without it or, if the thread stopped running, until one period after its last sample.
func Trace(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	tracks, first, err := s.timed()
	if err != nil {
		return err
	}
	out := traceWriter{out: bufio.NewWriter(w), first: first, period: max(p.Period, 1)}
	out.writeText(`{"displayTimeUnit":"ms","otherData":`)
	out.writeJSON(map[string]string{"title": Title(p), "begun": time.Unix(0, first).UTC().Format(time.RFC3339Nano)})
	out.writeText(`,"traceEvents":[`)
	for _, t := range joinRenamed(tracks) {
		out.track(t)
	}
	out.writeText("]}\n")
	if out.err != nil {
		return out.err
	}
	return out.out.Flush()
}

// traceWriter writes events.
type traceWriter struct {
	out    *bufio.Writer
	first  int64 // ns since 1970
	period int64 // ns
	events int
	err    error

	thread thread
	open   []frame // open functions, root first
	until  int64   // end of the last sample's period
}

func (w *traceWriter) writeText(text string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(text)
	}
}

func (w *traceWriter) writeJSON(value any) {
	text, err := json.Marshal(value)
	if w.err == nil {
		w.err = err
	}
	w.writeText(string(text))
}

func (w *traceWriter) event(e traceEvent) {
	if w.events > 0 {
		w.writeText(",\n")
	}
	w.events++
	w.writeJSON(e)
}

func (w *traceWriter) track(t *track) {
	w.thread, w.open, w.until = t.thread, nil, 0
	name := func(event, name string) {
		w.event(traceEvent{Name: event, Phase: "M", PID: t.pid, TID: t.tid, Args: map[string]any{"name": name}})
	}
	name("process_name", t.process)
	name("thread_name", t.name)
	for _, m := range t.moments {
		if m.time > w.until+w.period/2 {
			w.close(0, w.until)
		}
		same := 0
		for same < min(len(m.stack), len(w.open)) && sameFunction(w.open[same], m.stack[same]) {
			same++
		}
		w.close(same, m.time)
		for _, f := range m.stack[same:] {
			w.begin(f, m.time)
		}
		w.until = m.time + w.period
	}
	w.close(0, w.until)
}

// joinRenamed joins the tracks of a thread that had several names into one track with the last name, as the events of a
// thread must be nested.
func joinRenamed(tracks []*track) (out []*track) {
	byTime := func(a, b moment) int { return cmp.Compare(a.time, b.time) }
	for _, t := range tracks { // tracks of a thread are adjacent
		last := len(out) - 1
		if last < 0 || out[last].pid != t.pid || out[last].tid != t.tid || t.tid == 0 {
			out = append(out, t)
			continue
		}
		earlier, later := out[last], t
		if end := len(earlier.moments) - 1; earlier.moments[end].time > t.moments[len(t.moments)-1].time {
			earlier, later = t, earlier
		}
		joined := &track{thread: later.thread, process: later.process}
		joined.moments = slices.Concat(earlier.moments, later.moments)
		slices.SortStableFunc(joined.moments, byTime)
		out[last] = joined
	}
	return out
}

// sameFunction reports whether two frames belong to the same function, at any line.
func sameFunction(a, b frame) bool { return a.name == b.name && a.binary == b.binary }

// begin starts a function, called by the innermost open function.
func (w *traceWriter) begin(f frame, at int64) {
	args := map[string]any{}
	if f.binary != "" {
		args["binary"] = f.binary
	}
	if f.file != "" {
		args["file"] = f.file
	}
	w.event(traceEvent{Name: cutName(f.name, maxTraceName), Cat: "cpu", Phase: "B", Time: w.timeOf(at),
		PID: w.thread.pid, TID: w.thread.tid, Args: args})
	w.open = append(w.open, f)
}

// close ends the open functions from the given depth on, innermost first.
func (w *traceWriter) close(depth int, at int64) {
	for len(w.open) > depth {
		f := w.open[len(w.open)-1]
		w.event(traceEvent{
			Name: cutName(f.name, maxTraceName), Phase: "E", Time: w.timeOf(at), PID: w.thread.pid, TID: w.thread.tid,
		})
		w.open = w.open[:len(w.open)-1]
	}
}

// timeOf returns the time of an event, in µs.
func (w *traceWriter) timeOf(at int64) float64 { return float64(at-w.first) / 1e3 }
