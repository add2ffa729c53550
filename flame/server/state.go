package server

import (
	"encoding/json"
	"net/http"
	"time"
)

// serveJSON answers with a small JSON value.
func serveJSON(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(what) // the client may be gone
}

// processesAnswer is the answer of api/processes: the tables of the overview.
type processesAnswer struct {
	From      time.Time     `json:"from"`
	To        time.Time     `json:"to"`
	Samples   uint64        `json:"samples"`
	WithUser  uint64        `json:"with_user"`
	Complete  uint64        `json:"complete"`
	Targets   []targetState `json:"targets"`
	Processes []nameState   `json:"processes"`
}

// targetState is one target in the selected time.
type targetState struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Labels    string `json:"labels"`
	Samples   uint64 `json:"samples"`
	WithUser  uint64 `json:"with_user"`
	Complete  uint64 `json:"complete"`
	Processes int    `json:"processes"`
}

// nameState sums up the processes with one name.
type nameState struct {
	Name     string   `json:"name"`
	Samples  uint64   `json:"samples"`
	WithUser uint64   `json:"with_user"`
	Complete uint64   `json:"complete"`
	Share    float64  `json:"share"` // of all samples of the selection, 0 to 1
	PIDs     []uint32 `json:"pids"`  // most samples first
}

// serveProcesses answers with the targets of a time, and the processes of a selection.
func (p *Page) serveProcesses(w http.ResponseWriter, r *http.Request) {
	_, err := parseQuery(r.URL.Query())
	if err == nil && isFixed(r.URL.Query()) {
		_, err = fixedSelection(r.URL.Query())
	}
	if err != nil {
		failJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	s, _ := p.treeSelection(r.URL.Query())
	whole := s
	whole.target = allTargets
	entries := p.summed(whole)
	out := processesAnswer{Targets: []targetState{}, Processes: []nameState{}}
	processes := processesByTarget(entries)
	for _, row := range allTargetRows(entries) {
		out.Targets = append(out.Targets, targetState{
			row.ID, row.Name, row.Labels, row.Samples, row.WithUser, row.Complete, processes[row.ID],
		})
	}
	picked := s.pickProfiles(entries)
	for _, row := range allProcessRows(picked) {
		out.Processes = append(out.Processes, nameState{
			row.Comm, row.Samples, row.WithUser, row.Complete, row.Share, row.all,
		})
	}
	for _, k := range picked {
		samples, withUser, complete := k.countsOf(s)
		out.Samples, out.WithUser, out.Complete = out.Samples+samples, out.WithUser+withUser, out.Complete+complete
	}
	if len(picked) > 0 {
		out.From, out.To = time.UnixMilli(picked[0].start), time.UnixMilli(picked[len(picked)-1].end)
	}
	serveJSON(w, out)
}

// healthAnswer is the answer of api/health.
type healthAnswer struct {
	Healthy    bool    `json:"healthy"`
	Message    string  `json:"message"`
	SampleRate int     `json:"sample_rate"` // samples per second and CPU
	Interval   float64 `json:"interval"`    // seconds

	Targets     int               `json:"targets"`
	Processes   uint64            `json:"processes"`
	Executables uint64            `json:"executables"`
	Expected    uint64            `json:"expected"`
	Delivered   uint64            `json:"delivered"`
	Ignored     uint64            `json:"ignored"`
	Lost        map[string]uint64 `json:"lost"`
	Outcomes    []outcomeState    `json:"outcomes"`
	Incomplete  []incompleteState `json:"incomplete"`
	History     historyState      `json:"history"`
}

// outcomeState says how user stacks ended.
type outcomeState struct {
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"`
	Good    bool    `json:"good"`
}

// incompleteState counts the stacks that ended early in a binary.
type incompleteState struct {
	File    string `json:"file"`
	Outcome string `json:"outcome"`
	Samples uint64 `json:"samples"`
}

// historyState describes the kept history.
type historyState struct {
	Profiles int        `json:"profiles"`
	Bytes    int64      `json:"bytes"`
	MaxBytes int64      `json:"max_bytes"`
	MaxAge   float64    `json:"max_age"` // seconds
	Since    *time.Time `json:"since,omitempty"`
	Disk     *diskState `json:"disk,omitempty"`
}

// diskState describes the history on disk.
type diskState struct {
	Rounds   int        `json:"rounds"`
	Bytes    int64      `json:"bytes"`
	MaxBytes int64      `json:"max_bytes"`
	Since    *time.Time `json:"since,omitempty"`
	Missing  uint64     `json:"missing"`
	Problem  string     `json:"problem,omitempty"`
}

// serveHealth answers with the condition of the profiler.
func (p *Page) serveHealth(w http.ResponseWriter, _ *http.Request) {
	status := p.options.Status()
	out := healthAnswer{
		Healthy: status.Healthy, Message: status.Message, SampleRate: status.SampleRate, Interval: status.Interval.Seconds(),
		Targets: status.Targets, Processes: status.Processes, Executables: status.Executables,
		Expected: status.Expected, Delivered: status.Delivered, Ignored: status.Ignored, Lost: status.Lost,
		Outcomes: []outcomeState{}, Incomplete: []incompleteState{}, History: p.historyState(),
	}
	for _, row := range outcomeRows(status.Outcomes) {
		out.Outcomes = append(out.Outcomes, outcomeState{row.Name, row.Text, row.Samples, row.Share, row.Good})
	}
	for _, b := range status.Incomplete {
		out.Incomplete = append(out.Incomplete, incompleteState(b))
	}
	serveJSON(w, out)
}

func (p *Page) historyState() historyState {
	entries := p.history.allProfiles()
	out := historyState{
		Profiles: len(entries), Bytes: p.history.size(), MaxBytes: p.history.limit(), MaxAge: p.history.maxAge.Seconds(),
	}
	if len(entries) > 0 {
		since := time.UnixMilli(entries[0].start)
		out.Since = &since
	}
	if d, ok := p.Disk(); ok {
		out.Disk = &diskState{Rounds: d.Rounds, Bytes: d.Bytes, MaxBytes: d.MaxBytes, Missing: d.Missing, Problem: d.Problem}
		if d.Rounds > 0 {
			out.Disk.Since = &d.Since
		}
	}
	return out
}
