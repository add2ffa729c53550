// Package compare says which functions of a program became more or less expensive between two profiles, and which
// differences are no more than chance.
//
// A profile is a count of samples, so a function's share of a second has an error. How large it may be follows from the
// counts: given that a function has n samples in both profiles together, the number of them in the second one is
// binomial. Bounds are those of Clopper and Pearson, which never promise too much, divided by Bonferroni among all
// functions that are compared: with the Confidence asked for, all of them hold at once.
//
// Runs of one program differ by more than that: memory is laid out otherwise, other work uses the caches. Where a side
// has several profiles, that spread is measured, and the bounds allow for it.
//
// Samples in interrupts are left out: those come when they come, and are no work of the program.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/google/pprof/profile"
	"gonum.org/v1/gonum/mathext"
)

// Per says what a function's time is a part of.
type Per string

// What values are divided by.
const (
	PerSecond Per = "second" // of wall clock time, as for a service
	PerRun    Per = "run"    // nothing, as for a program that did the same work twice
	PerCPU    Per = "cpu"    // second of CPU time of the profile, as for services with unequal load
)

// Options say how profiles are compared.
type Options struct {
	Per        Per
	Total      bool    // compare functions with what they call; else themselves alone
	Confidence float64 // that all bounds hold, below 1
	AtLeast    float64 // least change that counts, 0.05 is 5 %
}

// DefaultOptions compares what functions cost per second themselves.
func DefaultOptions() Options { return Options{Per: PerSecond, Confidence: 0.999, AtLeast: 0.05} }

// Validate returns an error that names the first option out of range.
func (o Options) Validate() error {
	switch {
	case o.Per != PerSecond && o.Per != PerRun && o.Per != PerCPU:
		return fmt.Errorf("per %q is unknown, valid values are: second, run, cpu", o.Per)
	case !(o.Confidence > 0 && o.Confidence < 1):
		return fmt.Errorf("confidence must be between 0 and 1, got %v", o.Confidence)
	case !(o.AtLeast >= 0):
		return fmt.Errorf("the least change must not be negative, got %v", o.AtLeast)
	}
	return nil
}

// Side is one of two profiles.
type Side struct {
	Samples int64   `json:"samples"`
	Seconds float64 `json:"seconds"` // that the profile took; 0: unknown
	Value   float64 `json:"value"`   // of all samples, in Report.Unit
}

// Report is what differs between two profiles.
type Report struct {
	Unit string `json:"unit"` // of values: seconds, or that of the profiles, such as count
	Per  Per    `json:"per"`
	Base Side   `json:"base"`
	New  Side   `json:"new"`

	// Spread is how much functions differ between the profiles of a side, beyond the error of counting: 0.03 is 3 %. It is
	// nil if there is one profile a side, which does not say.
	Spread *float64 `json:"spread,omitempty"`

	// Changed are the functions that changed for certain, Others all others; the largest change of time comes first.
	Changed []Change `json:"changed"`
	Others  []Change `json:"others"`
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

// Profiles compares profiles of CPU time: one for each run of a program, or for each interval of a service.
func Profiles(base, after []*profile.Profile, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b, err := newSide(base, o)
	if err != nil {
		return nil, fmt.Errorf("base profile: %w", err)
	}
	n, err := newSide(after, o)
	if err != nil {
		return nil, fmt.Errorf("new profile: %w", err)
	}
	if b.unit != n.unit {
		return nil, fmt.Errorf("the base profile counts %s and the new one %s", b.unit, n.unit)
	}
	b.rename(n)
	r := &Report{Unit: b.unit, Per: o.Per, Base: b.Side, New: n.Side}
	if spread, ok := spreadOf(b, n); ok {
		r.Spread = &spread
	}
	r.sort(b, n, o)
	return r, nil
}

// sort compares all functions.
func (r *Report) sort(b, n *side, o Options) {
	keys := map[key]bool{}
	for k := range b.samples {
		keys[k] = true
	}
	for k := range n.samples {
		keys[k] = true
	}
	alpha := (1 - o.Confidence) / float64(max(len(keys), 1))
	for k := range keys {
		c := r.change(k, b, n, alpha)
		if c.Low > 1+o.AtLeast || c.High != nil && *c.High < 1/(1+o.AtLeast) {
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
	was, is := b.samples[k], n.samples[k]
	c := Change{
		Name: k.name, Binary: k.binary, BaseSamples: int64(math.Round(was)), NewSamples: int64(math.Round(is)),
		Base: was * b.worth(), New: is * n.worth(),
	}
	spread := 0.0
	if r.Spread != nil {
		spread = *r.Spread
	}
	// samples that know as much as these, of which runs differ by themselves
	wasScale := 1 + spread*spread*was/float64(b.profiles)
	isScale := 1 + spread*spread*is/float64(n.profiles)
	low, high := shareBounds(is/isScale, was/wasScale, alpha)
	weight := n.worth() * isScale / (b.worth() * wasScale)
	c.Low = low / (1 - low) * weight
	if high < 1 {
		ratio := high / (1 - high) * weight
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
