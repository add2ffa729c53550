package tree

import (
	"slices"
	"testing"

	"github.com/google/pprof/profile"
)

// TestLines checks that each line has the values of the samples that end at it and that pass through it, once for each
// sample, even if the function calls itself from the same line or from another line.
func TestLines(t *testing.T) {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	f := &profile.Function{ID: 1, Name: "f", Filename: "f.c"}
	g := &profile.Function{ID: 2, Name: "g", Filename: "g.c"}
	m := &profile.Mapping{ID: 1, File: "/bin/a"}
	at := func(fn *profile.Function, line int64) *profile.Location {
		return &profile.Location{ID: 1, Mapping: m, Line: []profile.Line{{Function: fn, Line: line}}}
	}
	inlined := &profile.Location{Mapping: m, Line: []profile.Line{{Function: g, Line: 3}, {Function: f, Line: 12}}}
	p := &profile.Profile{SampleType: []*profile.ValueType{cpu}, Mapping: []*profile.Mapping{m}}
	for _, s := range []struct {
		value int64
		stack []*profile.Location // leaf first
	}{
		{1, []*profile.Location{at(f, 10)}},
		{2, []*profile.Location{at(f, 11), at(f, 10)}},
		{4, []*profile.Location{at(g, 3), at(f, 11), at(f, 11)}},
		{8, []*profile.Location{inlined, at(g, 1)}},
		{16, []*profile.Location{at(g, 3)}},
	} {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{s.value}, Location: s.stack})
	}
	for binary, want := range map[string][]Line{
		"":       {{"f.c", 10, 1, 3}, {"f.c", 11, 2, 6}, {"f.c", 12, 0, 8}},
		"/bin/b": {},
	} {
		l := NewLines("f", binary)
		added, err := l.Add(fold(t, nil, p), Choice{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Lines(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if total := l.Total(); binary == "" && total != 15 || binary != "" && total != 0 || added.Total != 31 {
			t.Errorf("total %d of %d", total, added.Total)
		}
	}
}
