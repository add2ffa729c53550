package compare

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/tree"
)

// Flame builds the flame graph of a comparison profile by profile, so that not all profiles are in memory at once.
type Flame struct {
	report *Report
	show   func(name string) string
	ratio  float64 // factor on values of the base, for comparison with new values
	by     float64 // divisor of new values
	trie   *tree.Builder
}

// NewFlame returns an empty Flame. show, if not nil, maps the names of functions to the names to show.
func NewFlame(r *Report, show func(name string) string) *Flame {
	f := &Flame{report: r, show: show, by: r.Per.sumOf(&r.New)}
	f.ratio = f.by / r.Per.sumOf(&r.Base)
	f.trie = tree.NewDiff(show, r.Renamed[0], r.Renamed[1])
	return f
}

// sumOf returns the divisor for the values of all runs of a side.
func (p Per) sumOf(s *Side) float64 {
	switch p {
	case PerRun:
		return float64(s.Runs)
	case PerCPU:
		return s.Value
	case PerCount:
		return s.Count
	}
	return s.Seconds
}

// AddBase adds a profile of the base.
func (f *Flame) AddBase(p *profile.Profile) error {
	return f.trie.AddBase(withoutInterrupts(p), f.ratio)
}

// AddNew adds a new profile.
func (f *Flame) AddNew(p *profile.Profile) error { return f.trie.Add(withoutInterrupts(p)) }

// Nodes returns the number of nodes, some 100 bytes each.
func (f *Flame) Nodes() int { return f.trie.Nodes() }

// Tree returns the flame graph of the added profiles.
func (f *Flame) Tree() *tree.Tree {
	t, r := f.trie.Tree(tree.Options{}), f.report
	t.Diff.Per, t.Diff.By = string(r.Per), f.by
	unit := 1.0 // unit of the report's values, in units of the profiles
	if r.Unit == "seconds" {
		unit = 1e9
	}
	sample := func(s *Side) float64 { return s.largest * unit / float64(t.Scale) }
	t.Diff.BaseSample, t.Diff.NewSample = sample(&r.Base)*f.ratio, sample(&r.New)
	if r.Spread != nil {
		t.Diff.BaseSpread = *r.Spread * *r.Spread / float64(r.Base.Runs)
		t.Diff.NewSpread = *r.Spread * *r.Spread / float64(r.New.Runs)
	}
	f.bound(t)
	return t
}

// bound sets the change and its bounds for each function in the tree.
func (f *Flame) bound(t *tree.Tree) {
	byKey := map[key]*Change{}
	for _, list := range [][]Change{f.report.Changed, f.report.Others} {
		for i := range list {
			name := list[i].Name
			if f.show != nil && name != tree.WithoutName {
				name = f.show(name)
			}
			byKey[key{name, list[i].Binary}] = &list[i]
		}
	}
	certain := map[*Change]bool{}
	for i := range f.report.Changed {
		certain[&f.report.Changed[i]] = true
	}
	t.Diff.Functions, t.Diff.Changes = []int{}, []tree.Bound{}
	for i, name := range t.Frames.Name {
		binary := ""
		if m := t.Frames.Mapping[i]; m >= 0 {
			binary = tree.CodeOf(t.Strings[t.Mappings.File[m]])
		}
		c, at := byKey[key{t.Strings[name], binary}], -1
		if c != nil {
			at = len(t.Diff.Changes)
			t.Diff.Changes = append(t.Diff.Changes, tree.Bound{
				Base: c.Base, New: c.New, Low: c.Low, High: c.High, Certain: certain[c],
			})
		}
		t.Diff.Functions = append(t.Diff.Functions, at)
	}
}
