package export

import (
	"encoding/json"
	"io"
	"time"

	"github.com/google/pprof/profile"
)

// The structures of Headwater's own JSON, for scripts.
type (
	jsonFile struct {
		Title   string       `json:"title"`
		Begun   time.Time    `json:"begun"`
		Seconds float64      `json:"seconds"`
		Type    string       `json:"type"`   // the sample type, such as "cpu"
		Unit    string       `json:"unit"`   // unit of values
		Period  int64        `json:"period"` // value of one sample
		Frames  []jsonFrame  `json:"frames"`
		Samples []jsonSample `json:"samples"`
	}
	jsonFrame struct {
		Name    string `json:"name"`
		System  string `json:"system_name,omitempty"` // name for the linker, if different
		File    string `json:"file,omitempty"`
		Line    int64  `json:"line,omitempty"`
		Start   int64  `json:"start_line,omitempty"` // first line of the function
		Binary  string `json:"binary,omitempty"`
		Inlined bool   `json:"inlined,omitempty"` // inlined into the previous frame
	}
	jsonSample struct {
		Stack  []int   `json:"stack"` // indexes into frames, root first
		Value  int64   `json:"value"`
		PID    int64   `json:"pid,omitempty"`
		TID    int64   `json:"tid,omitempty"`
		Thread string  `json:"thread,omitempty"`
		Times  []int64 `json:"times,omitempty"` // ns since 1970, one per sample taken
	}
)

// JSON writes the whole profile in plain arrays.
func JSON(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	file := jsonFile{
		Title: Title(p), Begun: time.Unix(0, p.TimeNanos).UTC(), Seconds: time.Duration(p.DurationNanos).Seconds(),
		Type: p.SampleType[s.value].Type, Unit: s.valueUnit(), Period: p.Period,
		Frames: []jsonFrame{}, Samples: []jsonSample{},
	}
	known := map[frame]int{}
	for _, sample := range p.Sample {
		t, _ := threadOf(sample)
		out := jsonSample{Value: s.valueOf(sample), PID: t.pid, TID: t.tid, Thread: t.name, Times: times(sample)}
		for _, f := range s.codeFrames(sample) {
			id, ok := known[f]
			if !ok {
				id = len(file.Frames)
				known[f] = id
				file.Frames = append(file.Frames, newJSONFrame(f))
			}
			out.Stack = append(out.Stack, id)
		}
		file.Samples = append(file.Samples, out)
	}
	return json.NewEncoder(w).Encode(file)
}

func newJSONFrame(f frame) jsonFrame {
	out := jsonFrame{
		Name: f.name, System: f.system, File: f.file, Line: f.line, Start: f.startLine, Binary: f.binary, Inlined: f.inlined,
	}
	if f.system == f.name {
		out.System = ""
	}
	return out
}
