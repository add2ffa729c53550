package server

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strconv"
)

// allTargets is the target value for all targets.
const allTargets = "all"

// selection is a part of the history: profiles of a target whose round ended after from and not after to, optionally
// restricted to a process.
type selection struct {
	target   string // id of a target, or allTargets
	from, to int64  // ms since 1970
	comm     string // process name, "" for every process
	pid      uint32 // 0 for every process
	root     string // sample label whose values become root frames, "" for none

	exe, build string // a program and one of its builds, of a kept change; "" for all

	filter
}

// timeRange is a choice of the time before the newest profile.
type timeRange struct {
	Value string // as in the URL
	Text  string
	ms    int64 // 0 for only the last round
}

// timeRanges returns the choices, shortest first.
func timeRanges() []timeRange {
	return []timeRange{
		{"last", "last interval", 0},
		{"1m", "last minute", 60_000},
		{"5m", "last 5 minutes", 5 * 60_000},
		{"10m", "last 10 minutes", 10 * 60_000},
		{"1h", "last hour", 60 * 60_000},
	}
}

// offeredRanges returns the choices for a page that keeps profiles only in memory, or also on disk. The chosen range is
// always offered.
func offeredRanges(onDisk bool, chosen timeRange) []timeRange {
	return slices.DeleteFunc(timeRanges(), func(r timeRange) bool {
		return !onDisk && r.ms > DefaultMaxAge.Milliseconds() && r != chosen
	})
}

// defaultRange is the range if a visitor has not chosen one.
const defaultRange = "5m"

func findRange(value string) (timeRange, bool) {
	for _, r := range timeRanges() {
		if r.Value == value {
			return r, true
		}
	}
	return timeRange{}, false
}

// query is a selection relative to the newest profile.
type query struct {
	target string
	rng    timeRange
	comm   string
	pid    uint32
	root   string

	filter
}

// parseQuery reads the parameters target, range, process, pid, tagroot and the filter's parameters. All may be absent.
func parseQuery(v url.Values) (query, error) {
	q := query{target: targetID(v.Get("target")), comm: v.Get("process"), root: v.Get("tagroot")}
	name := v.Get("range")
	if name == "" {
		name = defaultRange
	}
	var ok bool
	if q.rng, ok = findRange(name); !ok {
		return query{}, fmt.Errorf("unknown range %q", name)
	}
	if text := v.Get("pid"); text != "" {
		pid, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return query{}, fmt.Errorf("pid %q is not a number", text)
		}
		q.pid = uint32(pid)
	}
	var err error
	q.filter, err = parseFilter(v)
	return q, err
}

// encode returns the query as URL parameters. The type template.URL prevents a second escaping by the template.
func (q query) encode() template.URL { return template.URL(q.values().Encode()) }

// values is the inverse of parseQuery.
func (q query) values() url.Values {
	v := url.Values{"target": {q.target}, "range": {q.rng.Value}}
	if q.comm != "" {
		v.Set("process", q.comm)
	}
	if q.pid != 0 {
		v.Set("pid", strconv.FormatUint(uint64(q.pid), 10))
	}
	if q.root != "" {
		v.Set("tagroot", q.root)
	}
	q.filter.addTo(v)
	return v
}

// resolve makes the selection absolute, so that it always refers to the same profiles. newest is the end of the newest
// round, in ms since 1970; 0 if there is none.
func (q query) resolve(newest int64) selection {
	s := selection{target: q.target, comm: q.comm, pid: q.pid, root: q.root, filter: q.filter}
	if newest == 0 {
		return s
	}
	s.to = newest
	if s.from = s.to - q.rng.ms; q.rng.ms == 0 {
		s.from = s.to - 1
	}
	return s
}

// targetID returns the target value of a selection: a target's ID, or the ID for all targets with a name.
func targetID(text string) string {
	switch {
	case text == "" || text == allTargets:
		return allTargets
	case isID.MatchString(text):
		return text
	default:
		return serviceID(text)
	}
}

// isID matches the IDs of targets and services.
var isID = regexp.MustCompile(`^s?[0-9a-f]{12}$`)

// isFixed reports whether parameters of a URL contain absolute times.
func isFixed(v url.Values) bool { return v.Has("from") || v.Has("to") }

// fixedSelection reads the parameters target, process, pid, tagroot, and from and to in ms
// since 1970: the profiles whose round ended after from and not after to.
func fixedSelection(v url.Values) (selection, error) {
	q, err := parseQuery(v)
	if err != nil {
		return selection{}, err
	}
	s := selection{
		target: q.target, comm: q.comm, pid: q.pid, root: q.root, exe: v.Get("exe"), build: v.Get("build"), filter: q.filter,
	}
	for _, at := range []struct {
		name string
		to   *int64
	}{{"from", &s.from}, {"to", &s.to}} {
		if *at.to, err = strconv.ParseInt(v.Get(at.name), 10, 64); err != nil {
			return selection{}, fmt.Errorf("%s %q is not a time in milliseconds", at.name, v.Get(at.name))
		}
	}
	if s.from >= s.to {
		return selection{}, fmt.Errorf("the time from %d to %d is empty", s.from, s.to)
	}
	return s, nil
}

// values is the inverse of fixedSelection.
func (s selection) values() url.Values {
	v := query{target: s.target, comm: s.comm, pid: s.pid, root: s.root, filter: s.filter}.values()
	v.Del("range")
	v.Set("from", strconv.FormatInt(s.from, 10))
	v.Set("to", strconv.FormatInt(s.to, 10))
	if s.build != "" {
		v.Set("exe", s.exe)
		v.Set("build", s.build)
	}
	return v
}
