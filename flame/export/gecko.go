package export

import (
	"encoding/json"
	"io"
	"path"

	"github.com/google/pprof/profile"
)

// geckoVersion is the version of the Gecko profile format to write. The Firefox Profiler reads it and all later
// versions.
const geckoVersion = 24

// geckoTable is a table with named columns.
type geckoTable struct {
	Schema map[string]int `json:"schema"`
	Data   [][]any        `json:"data"`
}

func newGeckoTable(columns ...string) geckoTable {
	t := geckoTable{Schema: map[string]int{}, Data: [][]any{}}
	for i, name := range columns {
		t.Schema[name] = i
	}
	return t
}

// geckoThread is a thread of a Gecko profile, see docs-developer/gecko-profile-format.md of
// github.com/firefox-devtools/profiler.
type geckoThread struct {
	Name        string     `json:"name"`
	ProcessName string     `json:"processName"`
	ProcessType string     `json:"processType"`
	PID         int64      `json:"pid"`
	TID         int64      `json:"tid"`
	Register    float64    `json:"registerTime"`
	Unregister  *float64   `json:"unregisterTime"`
	Markers     geckoTable `json:"markers"`
	Samples     geckoTable `json:"samples"`
	Frames      geckoTable `json:"frameTable"`
	Stacks      geckoTable `json:"stackTable"`
	Strings     []string   `json:"stringTable"`

	strings map[string]int
	frames  map[geckoFrame]int
	stacks  map[geckoStack]int
	known   map[*frame]int // index of a stack, by its first frame
}

type geckoFrame struct {
	location string
	line     int64
	category int
}

type geckoStack struct{ prefix, frame int }

// The categories of frames.
const (
	geckoUser = iota
	geckoKernel
	geckoOther
)

// Gecko writes the format of Firefox's own profiler, which profiler.firefox.com shows with a track for each thread.
// Samples without times are written one period apart.
func Gecko(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	tracks := s.tracks()
	first, err := firstTime(s, tracks)
	if err != nil {
		return err
	}
	threads := []*geckoThread{}
	for _, t := range tracks {
		threads = append(threads, newGeckoThread(t, first, max(p.Period, 1), p.SampleType[s.value].Type == "cpu"))
	}
	return json.NewEncoder(w).Encode(map[string]any{
		"meta": geckoMeta(p, first), "libs": []any{}, "threads": threads, "processes": []any{}, "pausedRanges": []any{},
	})
}

// firstTime returns the time of the first sample, or the time of the profile if samples have no times.
func firstTime(s *stacks, tracks []*track) (int64, error) {
	if len(tracks) == 0 || tracks[0].moments[0].time == 0 {
		return s.profile.TimeNanos, nil
	}
	_, first, err := s.timed()
	return first, err
}

func geckoMeta(p *profile.Profile, first int64) map[string]any {
	category := func(name, color string) map[string]any {
		return map[string]any{"name": name, "color": color, "subcategories": []string{"Other"}}
	}
	return map[string]any{
		"version": geckoVersion, "startTime": float64(first) / 1e6, "shutdownTime": nil, "processType": 0,
		"interval": float64(p.Period) / 1e6, "stackwalk": 1, "debug": 0, "gcpoison": 0, "asyncstack": 1,
		"product": Title(p), "importedFrom": "headwater", "presymbolicated": true, "markerSchema": []any{},
		"sampleUnits": map[string]string{"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
		"categories":  []any{category("User", "yellow"), category("Kernel", "orange"), category("Other", "grey")},
	}
}

// newGeckoThread returns a thread. If values are CPU time, each sample gets its CPU time.
func newGeckoThread(t *track, first, period int64, cpu bool) *geckoThread {
	g := &geckoThread{
		Name: t.name, ProcessName: t.process, ProcessType: "default", PID: t.pid, TID: t.tid,
		Markers: newGeckoTable("name", "startTime", "endTime", "phase", "category", "data"),
		Samples: newGeckoTable("stack", "time", "eventDelay", "threadCPUDelta"),
		Frames: newGeckoTable("location", "relevantForJS", "innerWindowID", "implementation", "line", "column",
			"category", "subcategory"),
		Stacks: newGeckoTable("prefix", "frame"), Strings: []string{},
		strings: map[string]int{}, frames: map[geckoFrame]int{}, stacks: map[geckoStack]int{}, known: map[*frame]int{},
	}
	for i, m := range t.moments {
		at := m.time - first
		if m.time == 0 {
			at = int64(i) * period
		}
		var used any
		if cpu {
			used = m.value
		}
		g.Samples.Data = append(g.Samples.Data, []any{g.stack(m.stack), float64(at) / 1e6, 0, used})
	}
	return g
}

// stack returns the index of a stack, root first. Samples of one stack share their frames.
func (g *geckoThread) stack(frames []frame) int {
	at := -1
	if len(frames) == 0 {
		return at
	}
	if known, ok := g.known[&frames[0]]; ok {
		return known
	}
	defer func() { g.known[&frames[0]] = at }()
	for _, f := range frames {
		key := geckoStack{at, g.frame(f)}
		id, ok := g.stacks[key]
		if !ok {
			id = len(g.Stacks.Data)
			g.stacks[key] = id
			var prefix any
			if at >= 0 {
				prefix = at
			}
			g.Stacks.Data = append(g.Stacks.Data, []any{prefix, key.frame})
		}
		at = id
	}
	return at
}

func (g *geckoThread) frame(f frame) int {
	key := geckoFrame{location: f.name, line: f.line, category: geckoOther}
	if f.binary != "" {
		key.location, key.category = f.name+" (in "+path.Base(f.binary)+")", geckoUser
	}
	if isKernel(f.binary) {
		key.category = geckoKernel
	}
	id, ok := g.frames[key]
	if !ok {
		id = len(g.Frames.Data)
		g.frames[key] = id
		var line any
		if f.line > 0 {
			line = f.line
		}
		g.Frames.Data = append(g.Frames.Data, []any{g.textIndex(key.location), false, 0, nil, line, nil, key.category, 0})
	}
	return id
}

func (g *geckoThread) textIndex(text string) int {
	id, ok := g.strings[text]
	if !ok {
		id = len(g.Strings)
		g.strings[text] = id
		g.Strings = append(g.Strings, text)
	}
	return id
}

// isKernel reports whether code is in the kernel, by the name of its mapping.
func isKernel(binary string) bool { return binary == "[kernel.kallsyms]" }
