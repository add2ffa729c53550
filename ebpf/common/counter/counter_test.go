package counter

import (
	"maps"
	"testing"
)

type figures struct {
	total, gauge uint64
	byReason     map[string]uint64
}

func rows() []Row[figures] {
	return []Row[figures]{
		{Info: Info{Name: "total", Kind: Total}, One: func(f *figures) *uint64 { return &f.total }},
		{Info: Info{Name: "gauge", Kind: Gauge}, One: func(f *figures) *uint64 { return &f.gauge }},
		{
			Info: Info{Name: "by_reason", Kind: Total, Label: "reason"},
			Many: func(f *figures) *map[string]uint64 { return &f.byReason },
		},
	}
}

// Totals add up, gauges keep the present value, and neither side changes.
func TestSum(t *testing.T) {
	past := figures{total: 1, gauge: 2, byReason: map[string]uint64{"a": 3, "b": 4}}
	now := figures{total: 10, gauge: 20, byReason: map[string]uint64{"a": 30, "c": 50}}
	sum := Sum(rows(), past, now)
	if sum.total != 11 || sum.gauge != 20 || !maps.Equal(sum.byReason, map[string]uint64{"a": 33, "b": 4, "c": 50}) {
		t.Errorf("the sum is %+v", sum)
	}
	sum.byReason["a"] = 0
	if now.byReason["a"] != 30 || past.byReason["a"] != 3 {
		t.Errorf("the sum shares the map of %+v or %+v", past, now)
	}
	if sum := Sum(rows(), figures{}, figures{}); sum.byReason == nil {
		t.Error("the sum of nothing has no map")
	}
}

// Rows of a part are rows of the whole.
func TestOf(t *testing.T) {
	type whole struct{ part figures }
	w := whole{figures{total: 1, gauge: 2, byReason: map[string]uint64{"a": 3}}}
	got := map[string]uint64{}
	for _, r := range Of(rows(), func(w *whole) *figures { return &w.part }) {
		r.Each(&w, func(label string, n uint64) { got[r.Name+" "+label] = n })
	}
	if want := map[string]uint64{"total ": 1, "gauge ": 2, "by_reason a": 3}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEach(t *testing.T) {
	f := figures{total: 1, gauge: 2, byReason: map[string]uint64{"a": 3, "b": 4}}
	got := map[string]uint64{}
	for _, r := range rows() {
		r.Each(&f, func(label string, n uint64) { got[r.Name+" "+label] = n })
	}
	if want := map[string]uint64{"total ": 1, "gauge ": 2, "by_reason a": 3, "by_reason b": 4}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
