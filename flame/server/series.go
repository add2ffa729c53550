package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/headwater/headwater/flame/server/archive"
)

// Limits of a timeline.
const (
	shownSeries = 5   // shown by name; all other names are added up
	maxBins     = 240 // maximum number of intervals; neighbours are joined beyond it
)

// seriesAnswer is the answer of api/series: the CPU time, or the value of another kind, of each interval, oldest first,
// by process or target. All columns but Names have a value for each interval.
type seriesAnswer struct {
	From   []int64   `json:"from"` // start of an interval, in ms since 1970
	To     []int64   `json:"to"`   // its end
	All    []int64   `json:"all"`  // in Unit
	Names  []string  `json:"names"`
	Values [][]int64 `json:"values"` // in Unit, by name
	Rest   []int64   `json:"rest"`   // sum of all other names
	Others int       `json:"others"` // number of other names

	Unit     string `json:"unit"`     // ms of time, bytes or count
	Interval int64  `json:"interval"` // ms from one round of collecting to the next
	Refresh  int64  `json:"refresh"`  // ms until a live view sends its next request
	Kept     int64  `json:"kept"`     // ms for which profiles are kept
}

// serveSeries answers with a timeline. Without from and to it covers all kept profiles.
func (p *Page) serveSeries(w http.ResponseWriter, r *http.Request) {
	s, by, err := p.seriesSelection(r.URL.Query())
	if err != nil {
		failJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	status := p.options.Status()
	period := cpuPeriod(status)
	line, err := p.timeline(s, by, func(k *kept) (counts, error) {
		return p.countsOf(r.Context(), k, s, by, k.valueOfSample(period))
	})
	if err != nil {
		status, message := explainFailure(err)
		failJSON(w, status, message)
		return
	}
	out := newSeries(line.bins, line.unit)
	out.Interval, out.Kept = status.Interval.Milliseconds(), p.options.MaxAge.Milliseconds()
	out.Refresh = max(out.Interval, p.live.pause(time.Now()).Milliseconds())
	data, err := compress(out)
	if err != nil {
		failJSON(w, http.StatusInternalServerError, err.Error())
		return
	}
	sendJSON(w, r, data)
}

// seriesSelection reads the parameters of api/series.
func (p *Page) seriesSelection(v url.Values) (s selection, by string, err error) {
	if by = v.Get("by"); by == "" {
		by = "process"
	}
	if by != "process" && by != "target" {
		return s, by, fmt.Errorf("by %.40q is none of process, target", by)
	}
	if isFixed(v) {
		s, err = fixedSelection(v)
		return s, by, err
	}
	q, err := parseQuery(v)
	if err != nil {
		return s, by, err
	}
	s = q.resolve(p.newestEnd())
	if !v.Has("range") {
		s.from = 0
	}
	return s, by, nil
}

// cpuPeriod returns the CPU time per sample, in ns, for profiles that do not specify it.
func cpuPeriod(s Status) int64 {
	return int64(time.Second) / int64(max(1, s.SampleRate))
}

// bin is one interval of a timeline.
type bin struct {
	from, to int64
	all      int64
	by       map[string]int64
}

// newSeries adds up values by name. The values are in unit.
func newSeries(bins []*bin, unit string) *seriesAnswer {
	bins = joinBins(bins)
	sums := map[string]int64{}
	for _, b := range bins {
		for name, value := range b.by {
			sums[name] += value
		}
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	out := &seriesAnswer{Unit: "ms", From: []int64{}, To: []int64{}, All: []int64{}, Rest: []int64{}, Values: [][]int64{}}
	out.Names, out.Others = cutList(names, shownSeries)
	for range out.Names {
		out.Values = append(out.Values, []int64{})
	}
	scale := int64(time.Millisecond)
	if unit != unitTime {
		out.Unit, scale = unit, 1
	}
	for _, b := range bins {
		out.addBin(b, scale)
	}
	return out
}

// addBin appends an interval. It divides the values by scale.
func (a *seriesAnswer) addBin(b *bin, scale int64) {
	all := b.all / scale
	rest := all
	for i, name := range a.Names {
		value := b.by[name] / scale
		a.Values[i] = append(a.Values[i], value)
		rest -= value
	}
	a.From, a.To = append(a.From, b.from), append(a.To, b.to)
	a.All, a.Rest = append(a.All, all), append(a.Rest, max(0, rest))
}

// valueOfSample returns the value of one sample of a profile: period, in ns, if the profile does not specify it.
func (k *kept) valueOfSample(period int64) int64 {
	if k.Period == 0 && k.sampleUnit() == unitTime {
		return period
	}
	return k.Period
}

// timeline collects intervals, oldest first. From twice maxBins on, it joins neighbours.
type timeline struct {
	unit string // of the values
	bins []*bin
	per  int // rounds per interval
	last int // rounds in the last interval
}

// clone returns a copy that can be extended.
func (t *timeline) clone() timeline {
	out := *t
	out.bins = make([]*bin, 0, len(t.bins))
	for _, b := range t.bins {
		one := *b
		one.by = maps.Clone(b.by)
		out.bins = append(out.bins, &one)
	}
	return out
}

// timeline returns the results of count for the profiles that s selects, by process or target. If profiles must be
// read, those on disk are limited to maxMergedBytes of files.
func (p *Page) timeline(s selection, by string, count func(*kept) (counts, error)) (line timeline, err error) {
	key := s
	key.to = 0
	maxBytes := int64(math.MaxInt64)
	if s.perSample() {
		maxBytes = maxMergedBytes
	}
	for {
		all := p.rounds(s, maxBytes)
		add := func(line *timeline, fresh []archive.Round) error {
			return rounds{holder: all.holder, onDisk: fresh}.eachRound(s, func(round []*kept) error {
				return line.addRound(round, count)
			})
		}
		line, err = p.lines.getTimeline(by+" "+key.values().Encode(), all.onDisk, add)
		if errors.Is(err, archive.ErrGone) {
			continue
		}
		if err == nil {
			err = rounds{memory: all.memory}.eachRound(s, func(round []*kept) error { return line.addRound(round, count) })
		}
		return line, err
	}
}

func newTimeline() timeline { return timeline{unit: unitTime, per: 1} }

// addRound adds a round.
func (t *timeline) addRound(round []*kept, count func(*kept) (counts, error)) error {
	b := &bin{from: round[0].start, to: round[0].end, by: map[string]int64{}}
	for _, k := range round {
		values, err := count(k)
		if err != nil {
			return err
		}
		for name, value := range values {
			b.addValue(name, value)
		}
	}
	t.unit = round[0].sampleUnit()
	if len(t.bins) > 0 && t.last < t.per {
		t.bins[len(t.bins)-1].joinBin(b)
		t.last++
		return nil
	}
	t.bins, t.last = append(t.bins, b), 1
	if len(t.bins) == 2*maxBins {
		t.bins, t.last, t.per = joinBins(t.bins), t.per+1, 2*t.per
	}
	return nil
}

func (b *bin) addValue(name string, value int64) {
	b.all += value
	b.by[name] += value
}

// joinBin adds the interval after b.
func (b *bin) joinBin(next *bin) {
	b.to, b.all = next.to, b.all+next.all
	for name, value := range next.by {
		b.by[name] += value
	}
}

// joinBins joins neighbours until there are at most maxBins.
func joinBins(bins []*bin) []*bin {
	at := (len(bins) + maxBins - 1) / maxBins
	if at <= 1 {
		return bins
	}
	var out []*bin
	for chunk := range slices.Chunk(bins, at) {
		sum := chunk[0]
		for _, b := range chunk[1:] {
			sum.joinBin(b)
		}
		out = append(out, sum)
	}
	return out
}
