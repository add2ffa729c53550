package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
)

// Default limits of the history.
const (
	DefaultMaxAge   = 10 * time.Minute
	DefaultMaxBytes = 32 << 20
)

// Options configure a Page. Name and Status are required.
type Options struct {
	Name   string        // name of the profiled system, for the heading
	Status func() Status // must be safe for concurrent use and must not block

	MaxAge   time.Duration // how long profiles are kept
	MaxBytes int64         // memory limit of the kept profiles; changed builds may take half as much on top

	// Log logs messages about the history on disk; err is nil for good news. Without Log they are dropped.
	Log func(message string, err error)

	// Record makes a recording, until it is complete or ctx is done; it returns nil if the recording has no samples.
	// Without Record, visitors cannot make recordings. It must be safe to call while profiles are added.
	Record func(ctx context.Context, wanted Recording) (*profile.Profile, error)

	// CPUTime calls do and returns the CPU time that this took. Without it, the time that passed counts.
	CPUTime func(do func()) time.Duration

	// Started returns the start time of a process, false if it has ended. Without Started, a build that was not seen
	// recently counts as new.
	Started func(pid uint32) (time.Time, bool)
}

// Page keeps profiles and serves the overview and all views, below any prefix that has been removed from the
// request's path. It is safe for concurrent use.
type Page struct {
	options Options
	history history
	changes changes

	disk   atomic.Pointer[disk] // nil: no history on disk
	diskMu sync.Mutex           // held while disk changes

	recording chan struct{} // full while a recording is made
	comparing chan struct{} // full while a comparison is made: one at a time bounds the memory
	compared  compared      // the last comparison; guarded by comparing
	answers   viewCache[*answer]
	folds     viewCache[foldedProfile] // profiles that were read for answers
	shown     *shownNames
	makers    makers
	live      *budget           // for the CPU time of views
	counted   viewCache[counts] // profiles that were read for a timeline
	lines     pastLines
	mux       http.ServeMux
}

// New returns an empty page.
func New(o Options) *Page {
	if o.Log == nil {
		o.Log = func(string, error) {}
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.CPUTime == nil {
		o.CPUTime = func(do func()) time.Duration {
			before := time.Now()
			do()
			return time.Since(before)
		}
	}
	shown, live := &shownNames{}, &budget{}
	measure := func(do func()) { live.spend(o.CPUTime(do), time.Now()) }
	p := &Page{
		options: o, comparing: make(chan struct{}, 1), recording: make(chan struct{}, 1),
		history: history{maxAge: o.MaxAge, maxBytes: o.MaxBytes, show: shown.shownName}, shown: shown, live: live,
		answers: viewCache[*answer]{maxBytes: maxAnswerBytes, measure: measure},
		folds:   viewCache[foldedProfile]{maxBytes: maxFoldedBytes}, counted: viewCache[counts]{maxBytes: maxCountBytes},
		changes: changes{room: o.MaxBytes / 2, started: o.Started, programs: map[programKey]*program{}},
	}
	p.addRoutes()
	return p
}

// SetMaxBytes changes Options.MaxBytes, but only for the history: it removes the oldest profiles beyond the limit.
func (p *Page) SetMaxBytes(bytes int64) { p.history.setMaxBytes(bytes) }

// MaxBytes returns the current memory limit of the history.
func (p *Page) MaxBytes() int64 { return p.history.limit() }

// DropViews drops all cached views; they are made again on demand.
func (p *Page) DropViews() {
	p.answers.dropOldest()
	p.folds.dropOldest()
	p.makers.dropMaker()
	p.lines.expire(time.Now().Add(2 * maxViewIdle))
}

// Bytes returns the memory of the kept profiles.
func (p *Page) Bytes() int64 { return p.history.size() }

// Add hands over the profiles of one round of collecting, from start to end.
func (p *Page) Add(start, end time.Time, profiles []Profile) {
	added := p.history.addRound(start, end, profiles)
	p.keepOnDisk(added)
	isCPU := selection{target: allTargets, to: math.MaxInt64} // builds are compared only by their CPU time
	p.changes.addRound(start, end, isCPU.pickProfiles(added), isCPU.pickProfiles(p.history.allProfiles()))
	p.answers.expire(time.Now())
	p.folds.expire(time.Now())
	p.makers.expire(time.Now())
	p.counted.expire(time.Now())
	p.lines.expire(time.Now())
}

// Changes returns the programs that recently got a new build, newest first, and the number of changes so far.
func (p *Page) Changes() (changes []Change, seen uint64) { return p.changes.allChanges() }

// ServeHTTP implements http.Handler. The paths are relative to a prefix that has been removed from the request's path.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "+
			"form-action 'self'; base-uri 'none'")
	if !strings.HasPrefix(r.URL.Path, "/") { // hosts of the page leave different parts of the path
		address := *r.URL
		address.Path = "/" + address.Path
		shallow := *r
		shallow.URL = &address
		r = &shallow
	}
	p.mux.ServeHTTP(w, r)
}

// addRoutes fills the mux: the pages, files of a selection that the parameters describe, JSON below api/, and assets.
func (p *Page) addRoutes() {
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /{$}":           p.serveOverview,
		"GET /open":          p.serveOpen,
		"GET /flame":         p.serveFlame,
		"GET /diff":          p.serveDiff,
		"GET /pprof":         p.serveOpen, // it had pprof's own views once
		"GET /download":      p.serveProfile,
		"GET /profile":       p.serveProfile,
		"GET /api/record":    p.serveRecord, // it names the method
		"POST /api/record":   p.serveRecord,
		"GET /api/tree":      p.serveTree,
		"GET /api/diff":      p.serveDiffData,
		"GET /api/series":    p.serveSeries,
		"GET /api/top":       p.serveTop,
		"GET /api/sandwich":  p.serveSandwich,
		"GET /api/lines":     p.serveLines,
		"GET /api/processes": p.serveProcesses,
		"GET /api/health":    p.serveHealth,
		"GET /api/": func(w http.ResponseWriter, _ *http.Request) {
			failJSON(w, http.StatusNotFound, "there is no such path")
		},
		"GET /": func(w http.ResponseWriter, _ *http.Request) {
			p.failPage(w, "./", http.StatusNotFound, "There is no such page.")
		},
	} {
		p.mux.HandleFunc(pattern, serve)
	}
	for _, name := range assetNames {
		p.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) { serveAsset(w, name) })
	}
}

func (p *Page) serveOverview(w http.ResponseWriter, r *http.Request) {
	if asked := askedPath(r); asked != "" && !strings.HasSuffix(asked, "/") {
		// Without the slash, the page's relative links would resolve to the parent of this path.
		redirect(w, path.Base(asked)+"/", r.URL.RawQuery, http.StatusMovedPermanently)
		return
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		p.failPage(w, "./", http.StatusBadRequest, err.Error())
		return
	}
	p.render(w, http.StatusOK, "overview.html", p.overview(q))
}

// askedPath returns the path as the client sent it, before any prefix was removed.
func askedPath(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// redirect sends the visitor to a path relative to the current one. (http.Redirect would make it absolute, without the
// prefix that was removed.)
func redirect(w http.ResponseWriter, to, rawQuery string, status int) {
	if rawQuery != "" {
		to += "?" + rawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(status)
}

// serveOpen redirects to the flame graph of a selection that is relative to the newest profile.
func (p *Page) serveOpen(w http.ResponseWriter, r *http.Request) {
	if s, ok := p.selected(w, r); ok {
		redirect(w, "flame", s.values().Encode(), http.StatusSeeOther)
	}
}

// selected returns the selection of the request's parameters. If that fails, it answers the request itself.
func (p *Page) selected(w http.ResponseWriter, r *http.Request) (selection, bool) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		p.failPage(w, "./", http.StatusBadRequest, err.Error())
		return selection{}, false
	}
	s := q.resolve(p.newestEnd())
	if len(p.pickSelected(s)) == 0 {
		p.failPage(w, "./", http.StatusNotFound, "There are no profiles of this target in the "+q.rng.Text+".")
		return selection{}, false
	}
	return s, true
}

// errGone says that the selected profiles are no longer kept.
var errGone = errors.New("profiles no longer kept")

// failPage answers with a page that shows an error message and links to the overview.
func (p *Page) failPage(w http.ResponseWriter, overview string, status int, message string) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'")
	p.render(w, status, "message.html", struct{ Overview, Message, Newest string }{overview, message, ""})
}

// failSelection answers for the page of a selection that cannot be shown. If its profiles are no longer kept, the
// answer links to the newest profiles of the same target and process, for a time of the same length.
func (p *Page) failSelection(w http.ResponseWriter, s selection, err error) {
	status, message := explainFailure(err)
	entries := p.history.allProfiles()
	if status != http.StatusGone || len(entries) == 0 {
		p.failPage(w, "./", status, message)
		return
	}
	newest := s
	newest.to = entries[len(entries)-1].end
	newest.from = newest.to - (s.to - s.from)
	newest.exe, newest.build = "", ""
	if len(newest.pickProfiles(entries)) == 0 {
		p.failPage(w, "./", status, message)
		return
	}
	p.render(w, status, "message.html", struct{ Overview, Message, Newest string }{
		"./", message + " " + p.keptText(),
		"./flame?" + newest.values().Encode(),
	})
}

// keptText describes how long profiles are kept.
func (p *Page) keptText() string {
	text := fmt.Sprintf("Profiles are kept for %g minutes", p.options.MaxAge.Minutes())
	switch d, ok := p.Disk(); {
	case !ok:
		return text + "."
	case d.Rounds == 0:
		return text + ", and then on disk, which has no profiles yet."
	default:
		return fmt.Sprintf("%s, and on disk in %s, which has profiles since %s.", text, formatBytes(d.MaxBytes),
			d.Since.Format(time.DateTime))
	}
}

func (p *Page) render(w http.ResponseWriter, status int, name string, data any) {
	var body bytes.Buffer
	if err := templates().ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}
