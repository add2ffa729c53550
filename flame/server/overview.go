package server

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"time"
)

// maxRows bounds the tables of the overview.
const maxRows = 50

// overview is the data of the overview's template.
type overview struct {
	Name    string
	Status  Status
	Refresh int // seconds

	Ranges   []timeRange
	Kinds    []string    // kinds with profiles, cpu first; empty if only cpu
	Targets  []targetRow // of the chosen range, most samples first
	More     int         // targets beyond the table
	Choice   choice
	Process  []processRow
	MorePIDs int // process names beyond the table
	Outcomes []outcomeRow
	Builds   []buildRow

	Samples, WithUser, Complete uint64 // of the selection
	From, To                    time.Time
	Profiles                    int
	Kept                        historyFigures
}

// choice is the visitor's selection.
type choice struct {
	Target, TargetName, Range, RangeText string
	Comm                                 string
	PID                                  uint32
	Root                                 string
	Kind                                 string
	Query                                template.URL // the selection as URL parameters
}

// historyFigures describe the history as a whole.
type historyFigures struct {
	Profiles int
	Bytes    int64
	MaxBytes int64
	MaxAge   time.Duration
	Since    time.Time
	Disk     Disk
}

// targetRow is one target in the selected time range.
type targetRow struct {
	ID, Name, Labels            string
	Samples, WithUser, Complete uint64
	Processes                   int
	Query                       template.URL
}

// processRow sums up the processes with one name.
type processRow struct {
	Comm                        string
	PIDs                        []pidRow // most samples first, at most 5
	MorePIDs                    int
	all                         []uint32 // all process IDs, most samples first
	Samples, WithUser, Complete uint64
	Share                       float64
	Query                       template.URL
}

type pidRow struct {
	PID   uint32
	Query template.URL
}

// newOverview describes the part of the history that q selects.
func (p *Page) newOverview(status Status, q query) overview {
	h := &p.history
	entries := h.allProfiles()
	s := q.resolve(p.newestEnd())
	whole := s
	whole.target = allTargets
	shown := p.summed(whole)
	o := overview{
		Name:     p.options.Name,
		Status:   status,
		Refresh:  max(5, int(status.Interval/time.Second)),
		Outcomes: outcomeRows(status.Outcomes),
		Kept:     historyFigures{Profiles: len(entries), Bytes: h.size(), MaxBytes: h.limit(), MaxAge: h.maxAge},
	}
	if kinds := kindsOf(entries, q.filter); len(kinds) > 1 {
		o.Kinds = kinds
	}
	if len(entries) > 0 {
		o.Kept.Since = time.UnixMilli(entries[0].start)
	}
	var onDisk bool
	o.Kept.Disk, onDisk = p.Disk()
	o.Ranges = offeredRanges(onDisk, q.rng)
	o.Targets, o.More = targetRows(shown, q)
	picked := s.pickProfiles(shown)
	o.Choice = choice{
		Target: q.target, TargetName: targetName(picked, q.target),
		Range: q.rng.Value, RangeText: q.rng.Text, Comm: q.comm, PID: q.pid, Root: q.root, Kind: q.kindName(),
		Query: q.encode(),
	}
	o.Process, o.MorePIDs = processRows(picked, q, status.ByPID)
	o.sumProfiles(picked, q)
	return o
}

// overview describes the part of the history that q selects, and the new builds.
func (p *Page) overview(q query) overview {
	o := p.newOverview(p.options.Status(), q)
	changes, _ := p.Changes()
	for i := range changes {
		o.Builds = append(o.Builds, newBuildRow(&changes[i]))
	}
	return o
}

// buildRow is a program with a new build.
type buildRow struct {
	Change
	OldBuild, NewBuild, CPU, Verdict string
	Query                            template.URL
}

func newBuildRow(c *Change) buildRow {
	row := buildRow{
		Change: *c, OldBuild: shortBuild(c.Old), NewBuild: shortBuild(c.New), CPU: "–", Verdict: "not enough samples yet",
	}
	row.Query = template.URL(url.Values{
		"target": {serviceID(c.Service)}, "exe": {c.Program}, "build": {c.Old + "," + c.New},
	}.Encode())
	more, less := len(c.More()), len(c.Less())
	switch {
	case c.Problem != "":
		row.Verdict = c.Problem
	case c.Report == nil:
	case more+less == 0:
		row.Verdict = "no certain change"
	default:
		row.Verdict = fmt.Sprintf("%d more expensive, %d less", more, less)
	}
	if c.Report != nil && !c.Both {
		row.CPU = changeText(&c.Report.All)
	}
	return row
}

// sumProfiles adds up the selected processes' samples.
func (o *overview) sumProfiles(picked []*kept, q query) {
	for _, k := range picked {
		o.Profiles += 1 + k.joined
		samples, withUser, complete := k.countsOf(selection{comm: q.comm, pid: q.pid})
		o.Samples += samples
		o.WithUser += withUser
		o.Complete += complete
	}
	if len(picked) > 0 {
		o.From = time.UnixMilli(picked[0].start)
		o.To = time.UnixMilli(picked[len(picked)-1].end)
	}
}

// targetRows adds up the profiles by target.
func targetRows(entries []*kept, q query) (rows []targetRow, more int) {
	rows, more = cutList(allTargetRows(entries), maxRows)
	processes := processesByTarget(entries)
	for i := range rows {
		row := &rows[i]
		row.Processes = processes[row.ID]
		row.Query = query{target: row.ID, rng: q.rng, root: q.root, filter: filter{kind: q.kind}}.encode()
	}
	return rows, more
}

// allTargetRows returns the rows of all targets, without their processes and links.
func allTargetRows(entries []*kept) (rows []targetRow) {
	byID := make(map[string]int)
	for _, k := range entries {
		at, known := byID[k.target.id]
		if !known {
			at = len(rows)
			byID[k.target.id] = at
			rows = append(rows, targetRow{ID: k.target.id, Name: k.target.name, Labels: k.target.labels})
		}
		row := &rows[at]
		row.Samples += k.Samples
		row.WithUser += k.WithUser
		row.Complete += k.Complete
	}
	slices.SortStableFunc(rows, func(a, b targetRow) int {
		return cmp.Or(compareDown(a.Samples, b.Samples), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// processesByTarget returns the number of processes of each target, by target ID.
func processesByTarget(entries []*kept) map[string]int {
	type process struct {
		target string
		pid    uint32
	}
	seen, out := map[process]bool{}, map[string]int{}
	for _, k := range entries {
		for _, p := range k.Processes {
			if of := (process{k.target.id, p.PID}); !seen[of] {
				seen[of] = true
				out[k.target.id]++
			}
		}
	}
	return out
}

// processRows adds up the processes of the profiles by name.
func processRows(entries []*kept, q query, byPID bool) (rows []processRow, more int) {
	rows, more = cutList(allProcessRows(entries), maxRows)
	for i := range rows {
		row := &rows[i]
		link := query{target: q.target, rng: q.rng, comm: row.Comm, root: q.root, filter: filter{kind: q.kind}}
		row.Query = link.encode()
		row.PIDs, row.MorePIDs = pidRows(row.all, link, byPID)
	}
	return rows, more
}

// allProcessRows returns the rows of all process names, without links.
func allProcessRows(entries []*kept) (rows []processRow) {
	type process struct{ row, pid uint32 }
	byComm, samples := map[string]uint32{}, map[process]uint64{}
	var sum uint64
	for _, k := range entries {
		for _, p := range k.Processes {
			at, known := byComm[p.Comm]
			if !known {
				at = uint32(len(rows))
				byComm[p.Comm] = at
				rows = append(rows, processRow{Comm: p.Comm})
			}
			row := &rows[at]
			row.Samples += p.Samples
			row.WithUser += p.WithUser
			row.Complete += p.Complete
			samples[process{at, p.PID}] += p.Samples
			sum += p.Samples
		}
	}
	all := slices.AppendSeq(make([]process, 0, len(samples)), maps.Keys(samples))
	slices.SortFunc(all, func(a, b process) int {
		return cmp.Or(cmp.Compare(a.row, b.row), compareDown(samples[a], samples[b]), cmp.Compare(a.pid, b.pid))
	})
	for _, p := range all {
		rows[p.row].all = append(rows[p.row].all, p.pid)
	}
	for i := range rows {
		rows[i].Share = share(rows[i].Samples, sum)
	}
	slices.SortStableFunc(rows, func(a, b processRow) int {
		return cmp.Or(compareDown(a.Samples, b.Samples), cmp.Compare(a.Comm, b.Comm))
	})
	return rows
}

// pidRows returns the first few of the process IDs, with links if profiles distinguish processes by ID.
func pidRows(ids []uint32, q query, links bool) (rows []pidRow, more int) {
	ids, more = cutList(ids, 5)
	for _, pid := range ids {
		row := pidRow{PID: pid}
		if q.pid = pid; links {
			row.Query = q.encode()
		}
		rows = append(rows, row)
	}
	return rows, more
}

// cutList returns the first n elements and the number of remaining ones.
func cutList[T any](list []T, n int) ([]T, int) {
	if len(list) <= n {
		return list, 0
	}
	return list[:n], len(list) - n
}
