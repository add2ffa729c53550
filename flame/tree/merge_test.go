package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// someProfiles returns profiles with common and different functions: with few, with many and without stacks.
func someProfiles() []*profile.Profile {
	return []*profile.Profile{random(3000, 300, 30), random(200, 60, 9), partMaker().Profile, newMaker().Profile}
}

// mergeOf returns a Merge of profiles.
func mergeOf(t testing.TB, profiles ...*profile.Profile) *Merge {
	t.Helper()
	m := NewMerge()
	for _, p := range profiles {
		if _, err := m.Add(fold(t, nil, p), Choice{}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// withLines spreads the samples of each function over several lines.
func withLines(p *profile.Profile) *profile.Profile {
	source := rand.New(rand.NewPCG(3, 4))
	p = p.Copy()
	for _, l := range slices.Clone(p.Location) {
		l.Line[0].Line = 1
		for line := range source.Int64N(3) {
			other := *l
			other.ID = uint64(len(p.Location) + 1)
			other.Line = slices.Clone(l.Line)
			other.Line[0].Line = 2 + line
			p.Location = append(p.Location, &other)
			for _, s := range p.Sample {
				for i := range s.Location {
					if s.Location[i] == l && source.IntN(3) == 0 {
						s.Location[i] = &other
					}
				}
			}
		}
	}
	return p
}

// TestMerge checks that Merge gives the same tree as a Builder, which keeps all nodes at first, for any limits.
func TestMerge(t *testing.T) {
	profiles := append(someProfiles(), withLines(random(2000, 50, 12)), random(3000, 300, 30))
	m := NewMerge()
	for n := range profiles {
		b := NewBuilder(nil)
		for _, p := range profiles[:n+1] {
			if err := b.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range []Options{
			{}, {Share: -1}, {Share: -1, Enough: 1 << 30, MaxNodes: 1 << 30}, {Enough: 10}, {Enough: 10, MaxNodes: 40},
			{Enough: 500, MaxNodes: 500}, {Share: 0.01, Enough: 1}, {Share: 0.3, Enough: 1, MaxNodes: 30},
			{Enough: 3000, MaxNodes: 100}, {Share: -1, Enough: 100, MaxNodes: 2000},
		} {
			for _, p := range profiles[:n+1] {
				added, err := m.Add(fold(t, nil, p), Choice{})
				if err != nil {
					t.Fatal(err)
				}
				total := int64(0)
				for _, s := range p.Sample {
					total += s.Value[0]
				}
				if added.Total != total {
					t.Errorf("%d were added, want %d", added.Total, total)
				}
			}
			want, got := encode(t, b.Tree(o)), encode(t, m.Tree(o))
			if !bytes.Equal(got, want) {
				t.Errorf("%d profiles, %+v: got %.3000s, want %.3000s", n+1, o, got, want)
			}
			m.Reset()
		}
	}
}

// TestMergeOfChoices checks that Merge and a Builder give the same tree for any Choice.
func TestMergeOfChoices(t *testing.T) {
	named := func(part string) func(Frame) bool {
		return func(f Frame) bool { return strings.Contains(f.Name, part) }
	}
	for name, c := range map[string]Choice{
		"with":    {With: []func(Frame) bool{named("1"), named("2")}},
		"without": {Without: named("7")},
		"root":    {Root: func(*profile.Sample) string { return "root" }},
		"outermost": {Sample: func(_ *profile.Sample, outermost string) bool {
			return strings.HasSuffix(outermost, "1")
		}},
	} {
		b, m := NewBuilder(nil), NewMerge()
		for _, p := range append(someProfiles(), withLines(random(2000, 50, 12))) {
			f := fold(t, nil, p)
			want, err := b.AddFolded(f, c)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := m.Add(f, c); err != nil || got.Total != want.Total || len(got.Labels) != len(want.Labels) {
				t.Errorf("%s: %+v were added, %v, want %+v", name, got, err, want)
			}
		}
		if b.Total() == 0 {
			t.Errorf("%s: nothing was chosen", name)
		}
		o := Options{Share: -1, MaxNodes: 1 << 30, Enough: 1 << 30}
		if want, got := encode(t, b.Tree(o)), encode(t, m.Tree(o)); !bytes.Equal(got, want) {
			t.Errorf("%s: got %.300s, want %.300s", name, got, want)
		}
	}
}

// TestMergeTakesLittle checks that nodes too small to show take no memory, even if they differ in all profiles.
func TestMergeTakesLittle(t *testing.T) {
	m := newMaker()
	for i := range 20_000 {
		m.sample(1, "a:main", fmt.Sprintf("a:once%d", i))
		m.sample(1000, "a:main", fmt.Sprintf("a:often%d", i%100))
	}
	merge, o := mergeOf(t, m.Profile), Options{Enough: 500}
	if tree := merge.Tree(o); tree.Omitted.Nodes != 20_000 || len(tree.Nodes.Frame) != 103 {
		t.Errorf("%d nodes are folded, and %d shown", tree.Omitted.Nodes, len(tree.Nodes.Frame))
	}
	if most := cap(merge.nodes); most > 2000 {
		t.Errorf("there was room for %d nodes", most)
	}
}

// TestSizeClasses checks that classes are in order of totals, and are narrow.
func TestSizeClasses(t *testing.T) {
	for _, total := range []int64{
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 10_000_000, 19_999_999, 1<<62 - 1, 1 << 62, 1<<63 - 1,
	} {
		class := sizeClass(total)
		if class < 0 || class >= sizeClasses || total > 1 && sizeClass(total-1) > class {
			t.Errorf("%d is of class %d, what is smaller of class %d", total, class, sizeClass(total-1))
		}
		if smaller := total - total/4 - 1; smaller > 0 && sizeClass(smaller) == class {
			t.Errorf("%d and %d are of class %d", smaller, total, class)
		}
	}
}

// TestSteps checks that stepBefore never exceeds the step before a total.
func TestSteps(t *testing.T) {
	for total := int64(1); total < 5000; total++ {
		if before := stepBefore(stepAfter(total)); before > total {
			t.Errorf("after %d comes %d, before which %d is said to come", total, stepAfter(total), before)
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	f, m := fold(b, nil, random(20_000, 2000, 40)), NewMerge()
	for b.Loop() {
		if _, err := m.Add(f, Choice{}); err != nil {
			b.Fatal(err)
		}
		m.Tree(Options{})
		m.Reset()
	}
	b.ReportMetric(float64(f.Nodes()), "nodes")
}

// TestReset checks that results are the same after Reset as with new Merges and Sums.
func TestReset(t *testing.T) {
	m := NewMerge()
	s := m.NewSums(DefaultMaxFunctions)
	for i, p := range someProfiles() {
		f, fresh, freshSums := fold(t, nil, p), NewMerge(), NewSums(DefaultMaxFunctions)
		for _, to := range []*Merge{m, fresh} {
			if _, err := to.Add(f, Choice{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, to := range []*Sums{s, freshSums} {
			if i == 2 {
				to.Search("main")
			}
			if _, err := to.Add(f, Choice{}); err != nil {
				t.Fatal(err)
			}
		}
		want, got := encode(t, fresh.Tree(Options{Share: -1})), encode(t, m.Tree(Options{Share: -1}))
		if !bytes.Equal(got, want) {
			t.Errorf("profile %d: got %.300s, want %.300s", i, got, want)
		}
		if !slices.Equal(s.Functions(), freshSums.Functions()) || s.Found() != freshSums.Found() {
			t.Errorf("profile %d: other functions, or %d found, want %d", i, s.Found(), freshSums.Found())
		}
		m.Reset()
		s.Reset()
	}
}
