package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/export"
)

// Limits of recordings by visitors. They bound the cost: one recording is made at a time.
const (
	defaultRecordSeconds, maxRecordSeconds = 10, 60
	defaultRecordRate, maxRecordRate       = 997, 5000
)

// Recording is a visitor's request to record one process, at its own rate.
type Recording struct {
	PID    uint32
	Rate   int // samples per second and CPU
	During time.Duration
	Format export.Format // requested format
}

// Title returns the recording's title for other tools.
func (r Recording) Title() string { return fmt.Sprintf("process-%d", r.PID) }

// ErrNoProcess is the error of Options.Record for a process that does not exist.
var ErrNoProcess = errors.New("there is no such process")

// serveRecord records a process, and answers with the profile as a file, in any format of package export.
func (p *Page) serveRecord(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "only POST is allowed here", http.StatusMethodNotAllowed)
		return
	}
	// Other sites that a visitor has open must not start recordings.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if p.options.Record == nil {
		http.Error(w, "recording is not possible here", http.StatusNotFound)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 10_000)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wanted, err := parseRecording(r.Form)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.recording <- struct{}{}:
		defer func() { <-p.recording }()
	default:
		http.Error(w, "another recording is running: only one runs at a time", http.StatusConflict)
		return
	}
	p.sendRecording(r.Context(), w, wanted)
}

// parseRecording reads the parameters pid, seconds, rate and format.
func parseRecording(v url.Values) (out Recording, err error) {
	pid, err := strconv.ParseUint(v.Get("pid"), 10, 32)
	if err != nil || pid == 0 {
		return out, fmt.Errorf("pid %.40q is no process ID", v.Get("pid"))
	}
	seconds, err := intParameter(v, "seconds", maxRecordSeconds)
	if err != nil {
		return out, err
	}
	rate, err := intParameter(v, "rate", maxRecordRate)
	if err != nil {
		return out, err
	}
	if seconds == 0 {
		seconds = defaultRecordSeconds
	}
	if rate == 0 {
		rate = defaultRecordRate
	}
	name := v.Get("format")
	if name == "" {
		name = "pprof"
	}
	format, err := export.ByName(name)
	return Recording{
		PID: uint32(pid), Rate: rate, During: time.Duration(seconds) * time.Second, Format: format,
	}, err
}

// sendRecording makes a recording and sends the file.
func (p *Page) sendRecording(ctx context.Context, w http.ResponseWriter, wanted Recording) {
	made, err := p.options.Record(ctx, wanted)
	switch {
	case errors.Is(err, ErrNoProcess):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, "recording: "+err.Error(), http.StatusInternalServerError)
		return
	case made == nil || len(made.Sample) == 0:
		http.Error(w, fmt.Sprintf("process %d used no CPU during the recording", wanted.PID), http.StatusNotFound)
		return
	}
	var out bytes.Buffer
	if err := writeAs(&out, made, wanted.Format); err != nil {
		http.Error(w, fmt.Sprintf("%s: %s", wanted.Format.Name, err), http.StatusUnprocessableEntity)
		return
	}
	name := fileStem(wanted.Title(), time.Now()) + wanted.Format.Suffixes[0]
	w.Header().Set("Content-Type", contentType(wanted.Format))
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	w.Write(out.Bytes())
}

// writeAs writes a profile in a format.
func writeAs(out *bytes.Buffer, p *profile.Profile, format export.Format) error {
	if !slices.Contains([]string{"pprof", "pgo", "autofdo"}, format.Name) { // these need unchanged names
		shortenNames(p)
	}
	return format.Write(out, p)
}

// recordForm is the data of the page's form for a recording.
type recordForm struct {
	PID                 string // selected process; "" for none
	Rate, MaxRate       int
	Seconds, MaxSeconds int
	Processes           []recordChoice
	Formats             []export.Format
}

// recordChoice is a process that can be recorded.
type recordChoice struct {
	PID  uint32
	Comm string
}

// recordForm returns the form, filled in for the process of a selection; nil if recordings are not possible.
func (p *Page) recordForm(s selection, o offered) *recordForm {
	if p.options.Record == nil {
		return nil
	}
	form := &recordForm{
		Rate: defaultRecordRate, MaxRate: maxRecordRate, Seconds: defaultRecordSeconds, MaxSeconds: maxRecordSeconds,
		Formats: export.Formats(),
	}
	for _, row := range o.processes {
		if s.comm != "" && row.Comm != s.comm {
			continue
		}
		pids, _ := cutList(row.all, maxOptions-len(form.Processes))
		for _, pid := range pids {
			form.Processes = append(form.Processes, recordChoice{pid, row.Comm})
		}
	}
	switch {
	case s.pid != 0:
		form.PID = strconv.FormatUint(uint64(s.pid), 10)
	case s.comm != "" && len(form.Processes) == 1:
		form.PID = strconv.FormatUint(uint64(form.Processes[0].PID), 10)
	}
	return form
}
