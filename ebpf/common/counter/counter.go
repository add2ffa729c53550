// Package counter describes figures by tables, with one row for each figure. Code that shows, sums or documents figures
// uses the rows.
package counter

import "maps"

// Kind says how a figure changes.
type Kind string

// The kinds.
const (
	Total Kind = "counter" // it only grows; totals of several runs add up
	Gauge Kind = "gauge"   // the present state
)

// Info describes a figure for people and programs.
type Info struct {
	Name  string // of the metric; "" if it is no metric
	Help  string // one sentence
	Kind  Kind
	Label string // name of the label of several values; "" if there is one value
	Debug string // attribute in the debug info; "" if not shown there
}

// Row is a figure of a struct T.
type Row[T any] struct {
	Info
	One  func(*T) *uint64            // where the value is; nil if there is a Label
	Many func(*T) *map[string]uint64 // where the values are, by label value
}

// One returns a figure with one value.
func One[T any](kind Kind, name, debug, help string, at func(*T) *uint64) Row[T] {
	return Row[T]{Info: Info{Name: name, Help: help, Kind: kind, Debug: debug}, One: at}
}

// Many returns totals by a label.
func Many[T any](name, label, debug, help string, at func(*T) *map[string]uint64) Row[T] {
	return Row[T]{Info: Info{Name: name, Help: help, Kind: Total, Label: label, Debug: debug}, Many: at}
}

// Of returns the rows of a T as rows of a U, which contains a T.
func Of[U, T any](rows []Row[T], part func(*U) *T) []Row[U] {
	out := make([]Row[U], len(rows))
	for i, r := range rows {
		out[i].Info = r.Info
		if r.One != nil {
			out[i].One = func(u *U) *uint64 { return r.One(part(u)) }
		}
		if r.Many != nil {
			out[i].Many = func(u *U) *map[string]uint64 { return r.Many(part(u)) }
		}
	}
	return out
}

// Each calls yield with each value and the value of its label.
func (r Row[T]) Each(t *T, yield func(label string, n uint64)) {
	if r.One != nil {
		yield("", *r.One(t))
		return
	}
	for label, n := range *r.Many(t) {
		yield(label, n)
	}
}

// Sum returns now with the totals of past added. It has its own maps.
func Sum[T any](rows []Row[T], past, now T) T {
	sum := now
	for _, r := range rows {
		switch {
		case r.Many != nil && r.Kind == Total:
			*r.Many(&sum) = addMaps(*r.Many(&past), *r.Many(&now))
		case r.One != nil && r.Kind == Total:
			*r.One(&sum) += *r.One(&past)
		}
	}
	return sum
}

func addMaps(a, b map[string]uint64) map[string]uint64 {
	sum := maps.Clone(b)
	if sum == nil {
		sum = make(map[string]uint64, len(a))
	}
	for name, n := range a {
		sum[name] += n
	}
	return sum
}
