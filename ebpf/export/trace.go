package export

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"github.com/google/pprof/profile"
)

// traceEvent is an event of the Trace Event Format, which chrome://tracing and ui.perfetto.dev
// read: "X" lasts from ts on, "M" names a process or thread.
type traceEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // µs after the first sample
	Dur   *float64       `json:"dur,omitempty"`
	PID   int64          `json:"pid"`
	TID   int64          `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// maxTraceName bounds names, which every event repeats.
const maxTraceName = 300

// Trace writes a track for each thread, with the functions that ran there, root on top. A
// function lasts from the first sample that has it to the next one that has not, or for a
// period after the last one where the thread did not run.
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
	out.text(`{"displayTimeUnit":"ms","otherData":`)
	out.json(map[string]string{"title": Title(p), "begun": time.Unix(0, first).UTC().Format(time.RFC3339Nano)})
	out.text(`,"traceEvents":[`)
	for _, t := range tracks {
		out.track(t)
	}
	out.text("]}\n")
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
	open   []openFrame
	until  int64 // when the last sample's time is over
}

// openFrame is a function that has not ended.
type openFrame struct {
	frame
	since int64
}

func (w *traceWriter) text(text string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(text)
	}
}

func (w *traceWriter) json(value any) {
	text, err := json.Marshal(value)
	if w.err == nil {
		w.err = err
	}
	w.text(string(text))
}

func (w *traceWriter) event(e traceEvent) {
	if w.events > 0 {
		w.text(",\n")
	}
	w.events++
	w.json(e)
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
		for same < min(len(m.stack), len(w.open)) && w.open[same].same(m.stack[same]) {
			same++
		}
		w.close(same, m.time)
		for _, f := range m.stack[same:] {
			w.open = append(w.open, openFrame{f, m.time})
		}
		w.until = m.time + w.period
	}
	w.close(0, w.until)
}

// same reports whether f is the function that has been open, at whatever line.
func (f *openFrame) same(g frame) bool { return f.name == g.name && f.binary == g.binary }

// close ends the functions from the given depth on, the innermost first.
func (w *traceWriter) close(depth int, at int64) {
	for i := len(w.open) - 1; i >= depth; i-- {
		f := w.open[i]
		dur := float64(at-f.since) / 1e3
		args := map[string]any{}
		if f.binary != "" {
			args["binary"] = f.binary
		}
		if f.file != "" {
			args["file"] = f.file
		}
		w.event(traceEvent{
			Name: cut(f.name, maxTraceName), Cat: "cpu", Phase: "X", Time: float64(f.since-w.first) / 1e3, Dur: &dur,
			PID: w.thread.pid, TID: w.thread.tid, Args: args,
		})
	}
	w.open = w.open[:min(depth, len(w.open))]
}
