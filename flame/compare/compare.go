// Package compare finds the functions of a program that became more or less expensive between two profiles, and the
// differences that may be chance.
//
// A profile is a count of samples, so a function's share of a second has an error, which follows from the counts: given
// n samples of a function in both profiles together, the number in the second profile is binomial. The bounds are those
// of Clopper and Pearson, which are conservative, with a Bonferroni correction for all compared functions: all bounds
// hold at once with the requested Confidence.
//
// The value of a sample of a wait is the length of the wait, so a sum of a few long and many short waits is as
// uncertain as the few long ones. It is replaced by a number of equal samples with the same variance. If a file does
// not have the sizes of samples, the samples of a stack may be a single one.
//
// Runs of a program differ by more than the error of counting: the memory layout differs, and other work uses the
// caches. If a side has several profiles, this spread is measured, and the bounds allow for it. A function that differs
// more between the profiles of a side than all other functions has its own spread.
//
// Samples in interrupts are left out: interrupts come at any time, and are no work of the program.
//
// A profile may lack samples that the host lost. The functions of lost samples are not known, so any function may lack
// the lost share of its samples. Changes up to Options.AtLeast do not count, so bounds allow only for the lost share
// beyond that. A side that lost too much is refused. If functions are compared including their callees, a function may
// also lack the samples of incomplete stacks: the share of incomplete stacks, taken of its own samples, and the whole
// difference between the numbers of incomplete stacks of the two sides. The remarks at the ends of such stacks are no
// functions. The same holds for methods of Java that were not read in time, whose frames have the name of HotSpot's
// interpreter.
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

// Options set how profiles are compared.
type Options struct {
	Per        Per
	Counts     []float64 // for PerCount: units of work of all profiles, of each side, or of each profile, base first
	Total      bool      // compare functions including their callees, otherwise only the functions themselves
	Confidence float64   // probability that all bounds hold, below 1
	AtLeast    float64   // smallest change that counts; 0.05 is 5 %
	MaxLost    float64   // maximum lost share of the samples of a side, below 1
}

// DefaultOptions compares the time of the functions themselves per second.
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
		return fmt.Errorf("the smallest change must not be negative, got %v", o.AtLeast)
	case !(o.MaxLost >= 0 && o.MaxLost < 1):
		return fmt.Errorf("the largest share of lost samples must be at least 0 and below 1, got %v", o.MaxLost)
	}
	return nil
}

// Side is one side of a comparison.
type Side struct {
	Runs    int     `json:"runs"` // number of profiles
	Samples int64   `json:"samples"`
	Seconds float64 `json:"seconds"`         // duration of the profiles; 0 if unknown
	Value   float64 `json:"value"`           // value of all samples, in Report.Unit
	Count   float64 `json:"count,omitempty"` // units of work, for PerCount

	// Lost is the share of the host's due samples that were lost during the profiles; nil if unknown.
	Lost *float64 `json:"lost,omitempty"`

	// Incomplete is the share of Value in stacks that end at a remark such as [incomplete: no_row].
	Incomplete float64 `json:"incomplete,omitempty"`

	largest float64 // largest effective sample of a function, in Report.Unit
}

// Report is the result of a comparison of two sides.
type Report struct {
	Unit string `json:"unit"` // unit of values: seconds, or the unit of the profiles, such as count
	Per  Per    `json:"per"`
	Base Side   `json:"base"`
	New  Side   `json:"new"`

	// Renamed holds the names of the program in the base and in the new profiles, if they differ.
	Renamed [2]string `json:"-"`

	// Spread is the relative difference of functions between the profiles of a side, beyond the error of counting: 0.03
	// is 3 %. It is nil if each side has only one profile.
	Spread *float64 `json:"spread,omitempty"`

	// All is the change of all functions together.
	All Change `json:"all"`

	// Factor is the change of all functions together, in Unit per second: the load of the host, or the amount of work,
	// changes all functions alike. It is nil if the durations of the profiles are unknown.
	Factor *Change `json:"factor,omitempty"`

	// Needed is the number of profiles that would show a change of 5 %; nil if no function has samples on both sides.
	Needed *Needed `json:"needed,omitempty"`

	// Changed holds the functions that certainly changed, Others all other functions; the largest change comes first.
	Changed []Change `json:"changed"`
	Others  []Change `json:"others"`
}

// Needed is the factor on the number of profiles that gives bounds of 5 % for the largest function.
type Needed struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // share of the function in the base
	Times int     `json:"times"` // 1 if the given profiles suffice; maxTimes stands for maxTimes or more
}

// Change is the change of a function.
type Change struct {
	Name   string `json:"name"`
	Binary string `json:"binary"` // base name of its file
	// Base and New are values divided according to Report.Per.
	Base        float64 `json:"base"`
	New         float64 `json:"new"`
	BaseSamples int64   `json:"base_samples"`
	NewSamples  int64   `json:"new_samples"`
	// Low and High bound New/Base. High is nil if there is no upper bound, as for a new function.
	Low  float64  `json:"ratio_low"`
	High *float64 `json:"ratio_high"`
}

// Change returns the difference of New and Base.
func (c *Change) Change() float64 { return c.New - c.Base }

// Certain reports whether the bounds exclude changes up to atLeast.
func (c *Change) Certain(atLeast float64) bool {
	return c.Low > 1+atLeast || c.High != nil && *c.High < 1/(1+atLeast)
}

// Profiles compares profiles: one for each run of a program, or for each interval of a service.
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

// Runs compares runs. It ignores Options.Total, which was an argument of NewRun.
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
		return nil, fmt.Errorf("the base profile is of %s and the new profile of %s: they cannot be compared", b.of, n.of)
	}
	r := &Report{Unit: b.unit, Per: o.Per, Base: b.Side, New: n.Side, Renamed: b.rename(n)}
	if spread, ok := spreadOf(b, n); ok {
		r.Spread = &spread
	}
	r.All = r.between(b.all, n.all, b, n, r.spread(), 1-o.Confidence)
	r.Factor = r.factor(b, n, 1-o.Confidence)
	b.hidden = max(0, b.unknown-n.unknown) * b.all.value
	n.hidden = max(0, n.unknown-b.unknown) * n.all.value
	r.sortChanges(b, n, o)
	r.Needed = r.needed(b, n, 1-o.Confidence)
	return r, nil
}

// factor compares the values of all functions together per second.
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

// needed returns the factor on the number of profiles that would show a change by shownChange.
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
		if rest := s.all.isLess(s.functions[largest]); r.Per == PerCPU && !s.all.isEven() && rest.value > 0 {
			samples = min(samples, rest.effective())
		}
		return samples / s.overdispersion(samples, spread)
	}
	was, is := deciding(b), deciding(n)
	enough := func(times int) bool {
		// An unchanged function has the share k/(k+n), and its bounds are around it.
		equal := is / (was + is)
		low, high := shareBounds(is*float64(times), was*float64(times), alpha)
		odds := equal / (1 - equal)
		return low/(1-low) >= odds/(1+shownChange) && high < 1 && high/(1-high) <= odds*(1+shownChange)
	}
	times := 1 + sort.Search(maxTimes-1, func(i int) bool { return enough(i + 1) })
	return &Needed{Name: largest.name, Share: b.functions[largest].value / b.all.value, Times: times}
}

// sortChanges compares all functions, and sorts their changes into Changed and Others.
func (r *Report) sortChanges(b, n *side, o Options) {
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

// shares bounds the change of the share of a function with the amounts was and is, for samples of different values: a
// long wait elsewhere may make a share smaller, so the rest is bounded as well. For samples of one value, change bounds
// a share as if the total were exact, as the rest varies at most like its number of samples.
func (r *Report) shares(was, is amount, b, n *side, spread, alpha float64) (low float64, high *float64) {
	one, other := *b, *n
	one.per, other.per = 1, 1
	own := r.between(was, is, &one, &other, spread, alpha/2)
	rest := r.between(b.all.isLess(was), n.all.isLess(is), &one, &other, r.spread(), alpha/2)
	share := was.value / b.all.value
	// The ratio of two shares is the ratio of the function's values, divided by the ratio of all values.
	over := func(own, rest float64) float64 { return own / (share*own + (1-share)*rest) }
	if rest.Base+rest.New == 0 { // there is no rest
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

// spread returns Spread, or 0 if it is unknown.
func (r *Report) spread() float64 {
	if r.Spread == nil {
		return 0
	}
	return *r.Spread
}

// between compares two amounts of a function with the given spread between runs.
func (r *Report) between(was, is amount, b, n *side, spread, alpha float64) Change {
	c := Change{
		BaseSamples: round(was.samples), NewSamples: round(is.samples), Base: was.value / b.per, New: is.value / n.per,
	}
	if was.value == 0 && is.value == 0 {
		return c
	}
	k, m := is.effective(), was.effective()
	wasScale, isScale := b.overdispersion(m, spread), n.overdispersion(k, spread)
	low, _ := shareBounds(k/isScale, (m+b.hidden/b.sizeOf(was, is))/wasScale, alpha)
	_, high := shareBounds((k+n.hidden/n.sizeOf(is, was))/isScale, m/wasScale, alpha)
	weight := n.sizeOf(is, was) / n.per * isScale / (b.sizeOf(was, is) / b.per * wasScale)
	c.Low = low / (1 - low) * weight * (1 - b.lacking)
	if high < 1 {
		ratio := high / (1 - high) * weight / (1 - n.lacking)
		c.High = &ratio
	}
	return c
}

// shareBounds returns the Clopper-Pearson bounds of a share, given k samples with it and n samples without it. With
// probability alpha at most, the share is not between the bounds.
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
