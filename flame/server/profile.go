package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/pprof"
)

// maxFresh bounds how long a request may wait for profiles.
const maxFresh = 10 * time.Minute

// serveProfile answers with the profile of a selection as a file, in any format of package export. With seconds it uses
// the newest profiles that cover this time, or, with fresh=1, future profiles.
func (p *Page) serveProfile(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	name := v.Get("format")
	if name == "" {
		name = "pprof"
	}
	format, err := export.ByName(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, err := p.profileSelection(r.Context(), v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.answers.building.Lock() // one at a time bounds the memory
	file, err := withPicked(p, s, func(picked []*kept) (exportedFile, error) { return exported(picked, s, format) })
	p.answers.building.Unlock()
	if errors.Is(err, errGone) {
		http.Error(w, "there are no profiles of this target at this time", http.StatusNotFound)
		return
	}
	if err != nil {
		status, message := explainExport(err)
		http.Error(w, fmt.Sprintf("%s: %s", format.Name, message), status)
		return
	}
	header := w.Header()
	header.Set("Content-Type", contentType(format))
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{
		"filename": file.stem + format.Suffixes[0],
	}))
	w.Write(file.body)
}

func contentType(f export.Format) string {
	switch {
	case strings.HasSuffix(f.Suffixes[0], ".json"):
		return "application/json"
	case f.Name == "html":
		return "text/html; charset=utf-8"
	case f.Name == "svg":
		return "image/svg+xml"
	case f.Name == "folded" || f.Name == "perf" || f.Name == "autofdo":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// formatError says that a format cannot show a profile.
type formatError struct{ error }

// exportedFile is a profile in a format.
type exportedFile struct {
	body []byte
	stem string // of the file name
}

// exported writes the profiles in a format.
func exported(picked []*kept, s selection, format export.Format) (file exportedFile, err error) {
	sum, err := merge(picked, s, maxMergedSamples)
	if err != nil {
		return file, err
	}
	used := picked[len(picked)-sum.used:]
	first, last := time.UnixMilli(used[0].start), time.UnixMilli(used[len(used)-1].end)
	sum.profile.TimeNanos, sum.profile.DurationNanos = first.UnixNano(), last.Sub(first).Nanoseconds()
	pprof.SetTitle(sum.profile, s.titleOf(targetName(used, s.target)))
	if s.root != "" {
		addRoots(sum.profile, s.root)
	}
	var out bytes.Buffer
	if err := writeAs(&out, sum.profile, format); err != nil {
		return file, formatError{err}
	}
	return exportedFile{out.Bytes(), fileStem(targetName(picked, s.target), last)}, nil
}

func explainExport(err error) (status int, message string) {
	var of formatError
	if errors.As(err, &of) {
		return http.StatusUnprocessableEntity, err.Error()
	}
	return explainFailure(err)
}

// profileSelection reads the parameters of profile. If fresh profiles are wanted, it waits for them.
func (p *Page) profileSelection(ctx context.Context, v url.Values) (selection, error) {
	text := v.Get("seconds")
	if text == "" {
		return p.treeSelection(v)
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds <= maxFresh.Seconds()) {
		return selection{}, fmt.Errorf("seconds %.40q is no number up to %.0f", text, maxFresh.Seconds())
	}
	if isFixed(v) {
		return selection{}, errors.New("seconds cannot be combined with from and to")
	}
	q, err := parseQuery(v)
	if err != nil {
		return selection{}, err
	}
	span := time.Duration(seconds * float64(time.Second))
	if isFresh, _ := strconv.ParseBool(v.Get("fresh")); isFresh {
		return p.fresh(ctx, q, span)
	}
	entries := p.history.allProfiles()
	if len(entries) == 0 { // all profiles are on disk
		s := q.resolve(p.newestEnd())
		s.from = s.to - span.Milliseconds()
		return s, nil
	}
	return q.newest(entries, span), nil
}

// newest selects the newest rounds that cover span, at least one.
func (q query) newest(entries []*kept, span time.Duration) selection {
	s := q.resolve(newestEnd(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].end <= s.to-span.Milliseconds() {
			break
		}
		s.from = min(s.from, entries[i].end-1)
		if entries[i].start <= s.to-span.Milliseconds() {
			s.from = entries[i].end - 1
			break
		}
	}
	return s
}

// fresh waits until the rounds that end from now on cover span, and selects them.
func (p *Page) fresh(ctx context.Context, q query, span time.Duration) (selection, error) {
	from := time.Now()
	ctx, cancel := context.WithTimeout(ctx, span+maxFresh)
	defer cancel()
	for {
		added := p.history.nextRound()
		s := q.resolve(newestEnd(p.history.allProfiles()))
		if s.to >= from.Add(span).UnixMilli() {
			s.from = from.UnixMilli()
			return s, nil
		}
		select {
		case <-added:
		case <-ctx.Done():
			return s, fmt.Errorf("no profile has arrived: %w", ctx.Err())
		}
	}
}
