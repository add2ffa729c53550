// Package compare says which functions of a program became more or less expensive between two profiles, and which
// differences are no more than chance.
//
// A profile is a count of samples, so a function's share of a second has an error. How large it may be follows from the
// counts: given that a function has n samples in both profiles together, the number of them in the second one is
// binomial. Bounds are those of Clopper and Pearson, which never promise too much, divided by Bonferroni among all
// functions that are compared: with the Confidence asked for, all of them hold at once.
//
// A sample of a wait is worth as long as the wait, so a sum of few long ones and many short ones is as uncertain as the
// few. A number of samples of one value that vary as much stands for them. Where a file does not say how large samples
// are, those of a stack may be one.
//
// Runs of one program differ by more than that: memory is laid out otherwise, other work uses the caches. Where a side
// has several profiles, that spread is measured, and the bounds allow for it. A function that differs by more between
// profiles of a side than all others do has a spread of its own.
//
// Samples in interrupts are left out: those come when they come, and are no work of the program.
//
// A profile may lack samples that the host lost. Which functions they were of is not known, so each may lack as large a
// part as all of them do. A change as small as Options.AtLeast does not count anyway; bounds allow for what was lost
// beyond that, and a side that lost too much is refused.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/google/pprof/profile"
	"gonum.org/v1/gonum/mathext"
)

// Options say how profiles are compared.
type Options struct {
	Per        Per
	Counts     []float64 // for PerCount, units of work: one for all profiles, one a side, or one a profile, base first
	Total      bool      // compare functions with what they call; else themselves alone
	Confidence float64   // that all bounds hold, below 1
	AtLeast    float64   // least change that counts, 0.05 is 5 %
	MaxLost    float64   // part of the samples of a side that may be lost, up to 1
}

// DefaultOptions compares what functions cost per second themselves.
func DefaultOptions() Options {
	return Options{Per: PerSecond, Confidence: 0.999, AtLeast: 0.05, MaxLost: 0.25}
}

// Validate returns an error that names the first option out of range.
func (o Options) Validate() error {
	if err := o.checkPer(); err != nil {
		return err
	}
	switch {
	case !(o.Confidence > 0 && o.Confidence < 1):
		return fmt.Errorf("confidence must be between 0 and 1, got %v", o.Confidence)
	case !(o.AtLeast >= 0):
		return fmt.Errorf("the least change must not be negative, got %v", o.AtLeast)
	case !(o.MaxLost >= 0 && o.MaxLost < 1):
		return fmt.Errorf("the part of lost samples must be from 0 to below 1, got %v", o.MaxLost)
	}
	return nil
}

// Side is one of two profiles.
type Side struct {
	Runs    int     `json:"runs"` // profiles
	Samples int64   `json:"samples"`
	Seconds float64 `json:"seconds"`         // that the profile took; 0: unknown
	Value   float64 `json:"value"`           // of all samples, in Report.Unit
	Count   float64 `json:"count,omitempty"` // units of work, for PerCount

	// Lost is the part of the host's samples that were due and lost meanwhile; nil: the profiles do not say.
	Lost *float64 `json:"lost,omitempty"`

	largest float64 // effective sample of a function, in Report.Unit
}

// Report is what differs between two profiles.
type Report struct {
	Unit string `json:"unit"` // of values: seconds, or that of the profiles, such as count
	Per  Per    `json:"per"`
	Base Side   `json:"base"`
	New  Side   `json:"new"`

	// Renamed is what the program of the base is called, and what it is called in the new profiles, if that differs.
	Renamed [2]string `json:"-"`

	// Spread is how much functions differ between the profiles of a side, beyond the error of counting: 0.03 is 3 %. It is
	// nil if there is one profile a side, which does not say.
	Spread *float64 `json:"spread,omitempty"`

	// All is the change of all functions together.
	All Change `json:"all"`

	// Factor is the change of all functions together, in Unit a second: by the load of the host, or the amount of work,
	// all functions change alike. It is nil if the profiles do not say how long they took.
	Factor *Change `json:"factor,omitempty"`

	// Needed says how many profiles would show a change of 5 %; nil where no function has samples on both sides.
	Needed *Needed `json:"needed,omitempty"`

	// Changed are the functions that changed for certain, Others all others; the largest change of time comes first.
	Changed []Change `json:"changed"`
	Others  []Change `json:"others"`
}

// Needed says how many times as many profiles as there are have bounds of 5 % around the function that has most.
type Needed struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // of all in the base
	Times int     `json:"times"` // 1: these do; maxTimes: or more
}

// Change is what became of a function.
type Change struct {
	Name   string `json:"name"`
	Binary string `json:"binary"` // name of its file without the folder
	// Base and New are values for each of what Report.Per says.
	Base        float64 `json:"base"`
	New         float64 `json:"new"`
	BaseSamples int64   `json:"base_samples"`
	NewSamples  int64   `json:"new_samples"`
	// Low and High bound New/Base. High is nil where it has no bound, as for a new function.
	Low  float64  `json:"ratio_low"`
	High *float64 `json:"ratio_high"`
}

// Change is the difference.
func (c *Change) Change() float64 { return c.New - c.Base }

// Certain reports whether the bounds lie beyond a change of that part.
func (c *Change) Certain(atLeast float64) bool {
	return c.Low > 1+atLeast || c.High != nil && *c.High < 1/(1+atLeast)
}

// Profiles compares profiles of CPU time: one for each run of a program, or for each interval of a service.
func Profiles(base, after []*profile.Profile, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b, err := runsOf(base, o.Total)
	if err != nil {
		return nil, fmt.Errorf("base profile: %w", err)
	}
	n, err := runsOf(after, o.Total)
	if err != nil {
		return nil, fmt.Errorf("new profile: %w", err)
	}
	return Runs(b, n, o)
}

// Runs compares runs. Options.Total says nothing here: NewRun has counted.
func Runs(base, after []*Run, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ofBase, ofNew, err := o.countsOf(len(base), len(after))
	if err != nil {
		return nil, err
	}
	b, err := newSide(base, ofBase, o)
	if err != nil {
		return nil, fmt.Errorf("base profile: %w", err)
	}
	n, err := newSide(after, ofNew, o)
	if err != nil {
		return nil, fmt.Errorf("new profile: %w", err)
	}
	if b.unit != n.unit {
		return nil, fmt.Errorf("the base profile counts %s and the new one %s", b.unit, n.unit)
	}
	if b.of != n.of && b.of != "" && n.of != "" {
		return nil, fmt.Errorf("the base profile is of %s and the new one of %s, which do not compare", b.of, n.of)
	}
	r := &Report{Unit: b.unit, Per: o.Per, Base: b.Side, New: n.Side, Renamed: b.rename(n)}
	if spread, ok := spreadOf(b, n); ok {
		r.Spread = &spread
	}
	r.All = r.between(b.all, n.all, b, n, r.spread(), 1-o.Confidence)
	r.sort(b, n, o)
	r.Factor = r.factor(b, n, 1-o.Confidence)
	r.Needed = r.needed(b, n, 1-o.Confidence)
	return r, nil
}

// factor compares what all functions together have of a second.
func (r *Report) factor(b, n *side, alpha float64) *Change {
	if b.Seconds <= 0 || n.Seconds <= 0 {
		return nil
	}
	was, is := *b, *n
	was.per, is.per = b.Seconds, n.Seconds
	c := r.between(b.all, n.all, &was, &is, r.spread(), alpha)
	return &c
}

// Bounds of Needed.
const (
	shownChange = 0.05
	maxTimes    = 1000
)

// needed finds how many times as many profiles a change by shownChange takes to be seen.
func (r *Report) needed(b, n *side, alpha float64) *Needed {
	var largest key
	for k, a := range b.functions {
		most := b.functions[largest].value
		if n.functions[k].value > 0 && (a.value > most || a.value == most && k.name < largest.name) {
			largest = k
		}
	}
	if b.functions[largest].value == 0 {
		return nil
	}
	alpha /= float64(max(len(r.Changed)+len(r.Others), 1))
	spread := ownSpread(largest, r.spread(), b, n)
	deciding := func(s *side) float64 {
		samples := s.functions[largest].effective()
		if rest := s.all.less(s.functions[largest]); r.Per == PerCPU && !s.all.isEven() && rest.value > 0 {
			samples = min(samples, rest.effective())
		}
		return samples / s.overdispersion(samples, spread)
	}
	was, is := deciding(b), deciding(n)
	enough := func(times int) bool {
		// An equal function has the share k/(k+n), around which the bounds lie.
		equal := is / (was + is)
		low, high := shareBounds(is*float64(times), was*float64(times), alpha)
		odds := equal / (1 - equal)
		return low/(1-low) >= odds/(1+shownChange) && high < 1 && high/(1-high) <= odds*(1+shownChange)
	}
	times := 1 + sort.Search(maxTimes-1, func(i int) bool { return enough(i + 1) })
	return &Needed{Name: largest.name, Share: b.functions[largest].value / b.all.value, Times: times}
}

// sort compares all functions.
func (r *Report) sort(b, n *side, o Options) {
	keys := map[key]bool{}
	for k := range b.functions {
		keys[k] = true
	}
	for k := range n.functions {
		keys[k] = true
	}
	alpha := (1 - o.Confidence) / float64(max(len(keys), 1))
	for k := range keys {
		if c := r.change(k, b, n, alpha); c.Certain(o.AtLeast) {
			r.Changed = append(r.Changed, c)
		} else {
			r.Others = append(r.Others, c)
		}
	}
	byChange := func(a, b Change) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Change()), math.Abs(a.Change())),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Binary, b.Binary))
	}
	slices.SortFunc(r.Changed, byChange)
	slices.SortFunc(r.Others, byChange)
}

func (r *Report) change(k key, b, n *side, alpha float64) Change {
	was, is, spread := b.functions[k], n.functions[k], ownSpread(k, r.spread(), b, n)
	c := r.between(was, is, b, n, spread, alpha)
	if r.Per == PerCPU && !(b.all.isEven() && n.all.isEven()) {
		c.Low, c.High = r.shares(was, is, b, n, spread, alpha)
	}
	c.Name, c.Binary = k.name, k.binary
	return c
}

// shares bounds the change of the share of what has was and is. Where samples have one value, a share is bounded as if
// all of the time were known: the rest varies by no more than its number does. Else a long wait elsewhere may make a
// share smaller, so the rest is bounded as well.
func (r *Report) shares(was, is amount, b, n *side, spread, alpha float64) (low float64, high *float64) {
	one, other := *b, *n
	one.per, other.per = 1, 1
	own := r.between(was, is, &one, &other, spread, alpha/2)
	rest := r.between(b.all.less(was), n.all.less(is), &one, &other, r.spread(), alpha/2)
	share := was.value / b.all.value
	// The ratio of two shares is that of the function's values, over that of all values.
	over := func(own, rest float64) float64 { return own / (share*own + (1-share)*rest) }
	if rest.Base+rest.New == 0 { // there is none
		all := 1.0
		return all, &all
	}
	if rest.High != nil && own.Low > 0 {
		low = over(own.Low, *rest.High)
	}
	switch {
	case own.High != nil && (*own.High > 0 && share > 0 || rest.Low > 0):
		ratio := over(*own.High, rest.Low)
		high = &ratio
	case own.High == nil && share > 0:
		ratio := 1 / share
		high = &ratio
	}
	return low, high
}

// spread is Spread; 0 if that is not known.
func (r *Report) spread() float64 {
	if r.Spread == nil {
		return 0
	}
	return *r.Spread
}

// between compares two amounts of what differs by that spread between runs.
func (r *Report) between(was, is amount, b, n *side, spread, alpha float64) Change {
	c := Change{
		BaseSamples: round(was.samples), NewSamples: round(is.samples), Base: was.value / b.per, New: is.value / n.per,
	}
	if was.value == 0 && is.value == 0 {
		return c
	}
	k, m := is.effective(), was.effective()
	wasScale, isScale := b.overdispersion(m, spread), n.overdispersion(k, spread)
	low, high := shareBounds(k/isScale, m/wasScale, alpha)
	weight := n.size(is, was) / n.per * isScale / (b.size(was, is) / b.per * wasScale)
	c.Low = low / (1 - low) * weight * (1 - b.lacking)
	if high < 1 {
		ratio := high / (1 - high) * weight / (1 - n.lacking)
		c.High = &ratio
	}
	return c
}

// shareBounds are the bounds of Clopper and Pearson of a share, of which it was seen k times, and n times not: with
// probability alpha at most it is not between them.
func shareBounds(k, n, alpha float64) (low, high float64) {
	low, high = 0, 1
	if k > 0 {
		low = mathext.InvRegIncBeta(k, n+1, alpha/2)
	}
	if n > 0 {
		high = mathext.InvRegIncBeta(k+1, n, 1-alpha/2)
	}
	return low, high
}
