package server

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/server/archive"
	"github.com/headwater/headwater/flame/tree"
)

// shownChanges is the number of functions that the page of a change lists; its flame graph shows more.
const shownChanges = 50

// diffAnswer is the answer of api/diff.
type diffAnswer struct {
	Target  string          `json:"target"`
	Program string          `json:"executable,omitempty"`
	Old     string          `json:"old,omitempty"`
	New     string          `json:"new,omitempty"`
	Base    period          `json:"base_time"`
	After   period          `json:"new_time"`
	Report  *compare.Report `json:"report"`
	*tree.Tree
}

// period is the time range of profiles.
type period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// comparison is two lists of rounds to compare.
type comparison struct {
	target   string
	change   *Change // nil: a comparison of two times
	old, new side
	per      compare.Per
	links    [2]template.URL // of both flame graphs
	series   string          // link to the timeline of both times; "" for builds
}

// findComparison returns the comparison that the parameters of a request select: build, exe and target of a change, or
// from, to, base_from and base_to.
func (p *Page) findComparison(v url.Values) (*comparison, error) {
	if !v.Has("build") {
		return p.compareTimes(v)
	}
	c, ok := p.changes.findComparison(v.Get("target"), v.Get("exe"), v.Get("build"))
	if !ok {
		return nil, errGone
	}
	return c, nil
}

// findComparison returns the comparison of a change. builds holds the IDs of both builds, separated by a comma.
func (c *changes) findComparison(service, exe, builds string) (*comparison, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.list {
		if serviceID(ch.key.service) != service || ch.key.path != exe || ch.old.id+","+ch.new.id != builds {
			continue
		}
		shown := ch.exported()
		out := &comparison{target: ch.key.service, change: &shown, old: ch.old, new: ch.new, per: compare.PerSecond}
		if old, fresh, per, ok := ch.compared(); ok {
			out.per = per
			out.old.rounds, out.new.rounds = old, fresh
			out.links = [2]template.URL{ch.linkOf(&out.old), ch.linkOf(&out.new)}
		}
		return out, true
	}
	return nil, false
}

// linkOf returns the parameters of the flame graph of a side.
func (c *change) linkOf(s *side) template.URL {
	from, to := s.span()
	one := selection{target: serviceID(c.key.service), from: from, to: to, exe: c.key.path, build: s.id}
	return template.URL(one.values().Encode())
}

// entries returns the kept profiles of a build, nil if they are no longer kept.
func (c *changes) entries(s selection) (out []*kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.list {
		for _, one := range []*side{&ch.old, &ch.new} {
			if serviceID(ch.key.service) != s.target || one.path != s.exe || one.id != s.build {
				continue
			}
			for _, r := range one.allRounds() {
				if r.end > s.from && r.end <= s.to {
					out = append(out, r.entries...)
				}
			}
			return out
		}
	}
	return nil
}

// compareTimes compares one selection at two times.
func (p *Page) compareTimes(v url.Values) (*comparison, error) {
	after, err := fixedSelection(v)
	if err != nil {
		return nil, badRequest{err}
	}
	v.Set("from", v.Get("base_from"))
	v.Set("to", v.Get("base_to"))
	before, err := fixedSelection(v)
	if err != nil {
		return nil, badRequest{fmt.Errorf("base_from and base_to: %w", err)}
	}
	out := &comparison{per: compare.PerSecond, series: seriesLink(after)}
	for i, one := range []struct {
		selection
		to *side
	}{{before, &out.old}, {after, &out.new}} {
		picked := p.pickSelected(one.selection)
		if len(picked) == 0 {
			return nil, errGone
		}
		out.target = targetName(picked, one.target)
		one.to.rounds = roundsOf(picked, one.selection)
		out.links[i] = template.URL(one.values().Encode())
	}
	return out, nil
}

// roundsOf groups profiles by round.
func roundsOf(entries []*kept, s selection) (out []*round) {
	for _, k := range entries {
		if n := len(out); n > 0 && out[n-1].end == k.end {
			out[n-1].entries = append(out[n-1].entries, k)
			continue
		}
		out = append(out, &round{start: k.start, end: k.end, entries: []*kept{k}, of: &s})
	}
	return out
}

// badRequest is an error in the request.
type badRequest struct{ error }

// answer compares the rounds, and makes the flame graph.
func (c *comparison) answer() (*diffAnswer, error) {
	report, err := c.report()
	if err != nil {
		return nil, err
	}
	flame := compare.NewFlame(report, flameName)
	if err := c.old.addTo(flame, flame.AddBase); err != nil {
		return nil, err
	}
	if err := c.new.addTo(flame, flame.AddNew); err != nil {
		return nil, err
	}
	out := &diffAnswer{Target: c.target, Base: c.old.period(), After: c.new.period(), Report: report, Tree: flame.Tree()}
	if c.change != nil {
		out.Program, out.Old, out.New = c.change.Program, c.change.Old, c.change.New
	}
	return out, nil
}

// report returns the worker's report for a change, or compares the two times.
func (c *comparison) report() (*compare.Report, error) {
	if c.change != nil {
		if c.change.Report == nil {
			return nil, errTooEarly
		}
		return c.change.Report, nil
	}
	c.old.readRounds(c.old.rounds)
	c.new.readRounds(c.new.rounds)
	return compareRounds(c.old.rounds, c.new.rounds, c.per)
}

// errTooEarly says that a new build has not run for long enough.
var errTooEarly = errors.New("the new build has too few samples to compare")

// addTo adds the rounds, newest first, as long as there is room.
func (s *side) addTo(flame *compare.Flame, add func(*profile.Profile) error) error {
	room := flame.Nodes() + maxTrieNodes/2
	for i := len(s.rounds) - 1; i >= 0; i-- {
		if len(s.rounds[i].entries) == 0 {
			continue
		}
		if flame.Nodes() > room {
			return errors.New("the comparison has too many stacks for one page")
		}
		p, err := s.profileOf(s.rounds[i])
		if err != nil {
			return err
		}
		if err := add(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) period() period {
	from, to := s.span()
	return period{time.UnixMilli(from), time.UnixMilli(to)}
}

// serveDiffData answers with a comparison as JSON.
func (p *Page) serveDiffData(w http.ResponseWriter, r *http.Request) {
	data, err := p.diffData(r.Context(), r.URL.Query())
	if err != nil {
		status, message := explainDiff(err)
		failJSON(w, status, message)
		return
	}
	sendJSON(w, r, data)
}

// diffData makes a comparison, one at a time.
func (p *Page) diffData(ctx context.Context, v url.Values) ([]byte, error) {
	done, err := p.compareAlone(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	for {
		data, err := p.compare(maps.Clone(v))
		if !errors.Is(err, archive.ErrGone) { // damaged files on disk are left out
			return data, err
		}
	}
}

// compare makes a comparison. The caller has filled p.comparing. compare changes v.
func (p *Page) compare(v url.Values) ([]byte, error) {
	c, err := p.findComparison(v)
	if err != nil {
		return nil, err
	}
	asked := v.Encode()
	if c.change != nil && p.compared.report == c.change.Report && p.compared.asked == asked {
		return p.compared.data, nil
	}
	answer, err := c.answer()
	if err != nil {
		return nil, err
	}
	data, err := compress(answer)
	if err == nil {
		p.compared = compared{asked, answer.Report, data}
	}
	return data, err
}

// compared is the last answer of api/diff, which is slow because it reads all profiles.
type compared struct {
	asked  string
	report *compare.Report // the report of the answer
	data   []byte
}

// compareAlone waits until no other comparison runs. The caller must call done.
func (p *Page) compareAlone(ctx context.Context) (done func(), err error) {
	select {
	case p.comparing <- struct{}{}:
		return func() { <-p.comparing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// explainDiff returns the response for a failed comparison.
func explainDiff(err error) (status int, message string) {
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, errTooEarly):
		return http.StatusNotFound, err.Error()
	}
	return explainFailure(err)
}

// diffPage is the data of the template of a comparison's page.
type diffPage struct {
	Name, Target, Program    string
	Change                   *Change
	Base, After              period
	Overview, Data           string // relative links
	OldLink, NewLink         template.URL
	Report                   *compare.Report
	Rows                     []diffRow
	MoreRows                 int
	More, Less               int
	OldBuild, NewBuild, Unit string
	OldLost, NewLost         string // "" if almost none
	Series                   string // "" for none
}

// diffRow is a function whose cost certainly changed.
type diffRow struct {
	Function, Binary, Before, After, Change, Between string
	More                                             bool
}

// serveDiff answers with the page of a comparison.
func (p *Page) serveDiff(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	data := "./api/diff?" + v.Encode() // before v changes
	c, report, err := p.diffReport(r.Context(), v)
	if err != nil {
		status, message := explainDiff(err)
		p.failPage(w, "./", status, message)
		return
	}
	p.renderDiff(w, c, report, data)
}

// diffReport finds a comparison and its report, which is nil if there are too few rounds of a new build.
func (p *Page) diffReport(ctx context.Context, v url.Values) (*comparison, *compare.Report, error) {
	done, err := p.compareAlone(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	c, err := p.findComparison(v)
	if err != nil {
		return nil, nil, err
	}
	report, err := c.report()
	if errors.Is(err, errTooEarly) {
		err = nil
	}
	return c, report, err
}

func (p *Page) renderDiff(w http.ResponseWriter, c *comparison, report *compare.Report, data string) {
	page := diffPage{
		Name: p.options.Name, Target: c.target, Change: c.change, Base: c.old.period(), After: c.new.period(),
		Overview: "./", Data: data, OldLink: c.links[0], NewLink: c.links[1], Report: report, Series: c.series,
	}
	if c.change != nil {
		page.Program, page.OldBuild, page.NewBuild = c.change.Program, shortBuild(c.change.Old), shortBuild(c.change.New)
	}
	if report != nil {
		page.OldLost, page.NewLost = lostText(&report.Base), lostText(&report.New)
		both := Change{Report: report}
		page.More, page.Less = len(both.More()), len(both.Less())
		page.Unit = map[compare.Per]string{
			compare.PerSecond: "CPU per second", compare.PerCPU: "share of its CPU",
		}[report.Per]
		for _, f := range report.Changed {
			page.Rows = append(page.Rows, newDiffRow(&f, report.Per))
		}
		page.Rows, page.MoreRows = cutList(page.Rows, shownChanges)
	}
	p.render(w, http.StatusOK, "diff.html", page)
}

func newDiffRow(c *compare.Change, per compare.Per) diffRow {
	row := diffRow{
		Function: flameName(c.Name), Binary: c.Binary, Before: amount(c.Base, per), After: amount(c.New, per),
		Change: changeText(c), Between: betweenText(c), More: c.Low > 1,
	}
	return row
}

// lostText returns the share of its samples that a side lost, or "" below 1 %.
func lostText(s *compare.Side) string {
	if s.Lost == nil || *s.Lost < 0.01 {
		return ""
	}
	return formatPercent(*s.Lost)
}

// amount formats seconds of CPU time per second, or a share of all CPU time.
func amount(value float64, per compare.Per) string {
	if per == compare.PerCPU {
		return formatPercent(value)
	}
	return strconv.FormatFloat(value*1e3, 'g', 3, 64) + " ms/s"
}

func changeText(c *compare.Change) string {
	switch {
	case c.Base == 0 && c.New == 0:
		return "0 %"
	case c.Base == 0:
		return "new"
	case c.New == 0:
		return "gone"
	}
	return moreText(c.New / c.Base)
}

// betweenText formats the bounds of a change.
func betweenText(c *compare.Change) string {
	switch {
	case c.High != nil && *c.High <= 100:
		return moreText(c.Low) + " and " + moreText(*c.High)
	case c.Low < 0.01:
		return "not known"
	}
	return "at least " + moreText(c.Low)
}

// moreText formats 1.2 as +20 %.
func moreText(ratio float64) string {
	return strings.Replace(fmt.Sprintf("%+.0f %%", 100*(ratio-1)), "-", "−", 1)
}

// shortBuild returns the start of a build ID.
func shortBuild(id string) string {
	if strings.HasPrefix(id, "file:") {
		return "a file without build ID"
	}
	return id[:min(len(id), 12)]
}
