package flamegraph

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

// Limits of the history where Options give none.
const (
	DefaultMaxAge   = 10 * time.Minute
	DefaultMaxBytes = 32 << 20
)

// Options configure a Page. Name and Status are required.
type Options struct {
	Name   string        // what is profiled, for the heading
	Status func() Status // must be safe for concurrent use and must not block

	MaxAge   time.Duration // how long profiles are kept
	MaxBytes int64         // how much memory the kept profiles may take, and half as much those of builds that changed

	// Log takes what is to be logged about the history on disk; err is nil for good news. nil: nobody is told.
	Log func(message string, err error)

	// Record makes a recording, until it is made or ctx is done; nil if it has no samples. Without it visitors can
	// record nothing. It must be safe to call while profiles are added.
	Record func(ctx context.Context, wanted Recording) (*profile.Profile, error)

	// Started returns when a process began, false if it has ended. Without it, a build that was not seen lately is
	// taken for a new one.
	Started func(pid uint32) (time.Time, bool)
}

// Page keeps profiles and serves the overview and the views of them, below any
// prefix that has been removed from the request's path. It is safe for concurrent use.
type Page struct {
	options Options
	history history
	changes changes

	disk   atomic.Pointer[disk] // nil: nothing is kept on disk
	diskMu sync.Mutex           // held while disk changes

	recording chan struct{} // full while a recording is made
	comparing chan struct{} // full while a comparison is made: one at a time bounds the memory
	compared  compared      // the last one; for who has filled comparing
	answers   viewCache[*answer]
	folds     viewCache[foldedProfile] // that were read for answers
	shown     *shownNames
	makers    makers
	live      *budget           // of what is made for views
	counted   viewCache[counts] // of profiles that were read for a timeline
	lines     pastLines
	views     viewCache[*view] // pprof's
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
	shown, live := &shownNames{}, &budget{}
	return &Page{
		options: o, comparing: make(chan struct{}, 1), recording: make(chan struct{}, 1),
		history: history{maxAge: o.MaxAge, maxBytes: o.MaxBytes, show: shown.name}, shown: shown, live: live,
		answers: viewCache[*answer]{maxBytes: maxAnswerBytes, spend: live.spend},
		views:   viewCache[*view]{maxBytes: maxViewBytes},
		folds:   viewCache[foldedProfile]{maxBytes: maxFoldedBytes}, counted: viewCache[counts]{maxBytes: maxCountBytes},
		changes: changes{room: o.MaxBytes / 2, started: o.Started, programs: map[programKey]*program{}},
	}
}

// SetMaxBytes changes Options.MaxBytes, for the history alone: the oldest profiles that are too many go.
func (p *Page) SetMaxBytes(bytes int64) { p.history.setMaxBytes(bytes) }

// MaxBytes returns how much memory they may take now.
func (p *Page) MaxBytes() int64 { return p.history.limit() }

// DropViews forgets what was made to be looked at; it is made again when somebody asks for it.
func (p *Page) DropViews() {
	p.answers.drop()
	p.folds.drop()
	p.makers.drop()
	p.lines.expire(time.Now().Add(2 * maxViewIdle))
	p.views.drop()
}

// Bytes returns the memory of the profiles that are kept.
func (p *Page) Bytes() int64 { return p.history.size() }

// Add hands over the profiles of one round of collecting, from start to end.
func (p *Page) Add(start, end time.Time, profiles []Profile) {
	added := p.history.add(start, end, profiles)
	p.keepOnDisk(added)
	isCPU := selection{target: allTargets, to: math.MaxInt64} // builds are compared by their CPU time alone
	p.changes.add(start, end, isCPU.pick(added), isCPU.pick(p.history.all()))
	p.answers.expire(time.Now())
	p.folds.expire(time.Now())
	p.makers.expire(time.Now())
	p.views.expire(time.Now())
	p.counted.expire(time.Now())
	p.lines.expire(time.Now())
}

// Changes returns the programs of which a new build came lately, the newest first, and how many there have been.
func (p *Page) Changes() (changes []Change, seen uint64) { return p.changes.all() }

// ServeHTTP implements http.Handler. The paths are / (the overview), those of pages, those below api/, profile and
// download (of a selection given as parameters), and /ui/SELECTION/VIEW for pprof's views.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "+
			"form-action 'self'; base-uri 'none'")
	where := "/" + strings.TrimPrefix(r.URL.Path, "/")
	if where == "/api/record" {
		p.serveRecord(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are allowed here", http.StatusMethodNotAllowed)
		return
	}
	switch {
	case where == "/":
		p.serveOverview(w, r)
	case where == "/open":
		p.serveOpen(w, r)
	case where == "/flame":
		p.serveFlame(w, r)
	case where == "/diff":
		p.serveDiff(w, r)
	case where == "/pprof":
		p.servePprof(w, r, "flamegraph")
	case where == "/download":
		p.servePprof(w, r, "download")
	case where == "/profile":
		p.serveProfile(w, r)
	case strings.HasPrefix(where, "/api/"):
		p.serveAPI(w, r, strings.TrimPrefix(where, "/api/"))
	case isAsset(where):
		serveAsset(w, strings.TrimPrefix(where, "/"))
	case strings.HasPrefix(where, "/ui/"):
		p.serveView(w, r, strings.TrimPrefix(where, "/ui/"))
	default:
		p.fail(w, "./", http.StatusNotFound, "There is no such page.")
	}
}

// serveAPI answers with JSON.
func (p *Page) serveAPI(w http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "tree":
		p.serveTree(w, r)
	case "diff":
		p.serveDiffData(w, r)
	case "series":
		p.serveSeries(w, r)
	case "top":
		p.serveTop(w, r)
	case "sandwich":
		p.serveSandwich(w, r)
	case "lines":
		p.serveLines(w, r)
	case "processes":
		p.serveProcesses(w, r)
	case "health":
		p.serveHealth(w)
	default:
		failJSON(w, http.StatusNotFound, "there is no such path")
	}
}

func (p *Page) serveOverview(w http.ResponseWriter, r *http.Request) {
	if asked := askedPath(r); asked != "" && !strings.HasSuffix(asked, "/") {
		// Without the slash, the page's relative links would miss its last segment.
		redirect(w, path.Base(asked)+"/", r.URL.RawQuery, http.StatusMovedPermanently)
		return
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		p.fail(w, "./", http.StatusBadRequest, err.Error())
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

// redirect sends the visitor to a path relative to the present one. (http.Redirect
// would make it absolute, without the prefix that was removed.)
func redirect(w http.ResponseWriter, to, rawQuery string, status int) {
	if rawQuery != "" {
		to += "?" + rawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(status)
}

// serveOpen leads to the flame graph of a selection that is relative to the newest profile.
func (p *Page) serveOpen(w http.ResponseWriter, r *http.Request) {
	if s, ok := p.selected(w, r); ok {
		redirect(w, "flame", s.values().Encode(), http.StatusSeeOther)
	}
}

// servePprof fixes a selection that is relative to the newest profile, so that all
// of pprof's views show the same samples however long they are looked at.
func (p *Page) servePprof(w http.ResponseWriter, r *http.Request, view string) {
	if s, ok := p.selected(w, r); ok {
		redirect(w, "ui/"+s.String()+"/"+view, "", http.StatusSeeOther)
	}
}

// selected returns the selection of the request's parameters, or answers it.
func (p *Page) selected(w http.ResponseWriter, r *http.Request) (selection, bool) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		p.fail(w, "./", http.StatusBadRequest, err.Error())
		return selection{}, false
	}
	s := q.resolve(p.newestEnd())
	if len(p.pick(s)) == 0 {
		p.fail(w, "./", http.StatusNotFound, "There are no profiles of this target in the "+q.rng.Text+".")
		return selection{}, false
	}
	return s, true
}

// serveView answers for one of pprof's views; rest is SELECTION/VIEW.
func (p *Page) serveView(w http.ResponseWriter, r *http.Request, rest string) {
	segment, name, found := strings.Cut(rest, "/")
	s, err := parseSelection(segment)
	if err != nil {
		p.fail(w, "../../", http.StatusNotFound, err.Error())
		return
	}
	if !found {
		redirect(w, segment+"/flamegraph", r.URL.RawQuery, http.StatusMovedPermanently)
		return
	}
	v, err := p.views.get(r.Context(), s.String(), func() (*view, error) {
		return withPicked(p, s, func(picked []*kept) (*view, error) { return newView(picked, s) })
	})
	if err != nil {
		status, message := explainFailure(err)
		p.fail(w, "../../", status, message)
		return
	}
	// pprof's pages carry their scripts and styles inside.
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "+
			"form-action 'none'")
	if err := v.serve(w, r, "/"+name); errors.Is(err, errNoDot) || errors.Is(err, errNotServed) {
		p.fail(w, "../../", http.StatusNotFound, err.Error())
	}
}

// errGone says that the history has forgotten what a selection asks for.
var errGone = errors.New("profiles no longer kept")

// fail answers with a page that says what is wrong and leads to the overview.
func (p *Page) fail(w http.ResponseWriter, overview string, status int, message string) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'")
	p.render(w, status, "message.html", struct{ Overview, Message, Newest string }{overview, message, ""})
}

// failSelection answers for a page of a selection. If its profiles are no longer kept, the answer leads to the newest
// ones of the same target and process, for as long a time.
func (p *Page) failSelection(w http.ResponseWriter, s selection, err error) {
	status, message := explainFailure(err)
	entries := p.history.all()
	if status != http.StatusGone || len(entries) == 0 {
		p.fail(w, "./", status, message)
		return
	}
	newest := s
	newest.to = entries[len(entries)-1].end
	newest.from = newest.to - (s.to - s.from)
	newest.exe, newest.build = "", ""
	if len(newest.pick(entries)) == 0 {
		p.fail(w, "./", status, message)
		return
	}
	p.render(w, status, "message.html", struct{ Overview, Message, Newest string }{
		"./", message + " " + p.keptText(),
		"./flame?" + newest.values().Encode(),
	})
}

// keptText says for how long profiles are kept.
func (p *Page) keptText() string {
	text := fmt.Sprintf("Profiles are kept for %g minutes", p.options.MaxAge.Minutes())
	switch d, ok := p.Disk(); {
	case !ok:
		return text + "."
	case d.Rounds == 0:
		return text + ", and then on disk: there are none yet."
	default:
		return fmt.Sprintf("%s, and on disk in %s: there are those since %s.", text, formatBytes(d.MaxBytes),
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
