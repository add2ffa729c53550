package tree

import "github.com/google/pprof/profile"

// perLocation holds values for the locations of one profile by ID. IDs are small and unique in nearly every profile; a
// map takes several times as long for each frame.
type perLocation[T any] struct {
	small []ofLocation[T]
	other map[*profile.Location]*ofLocation[T]
}

type ofLocation[T any] struct {
	location *profile.Location
	stands   []T // nil at first
}

func newPerLocation[T any](p *profile.Profile) *perLocation[T] {
	return &perLocation[T]{
		small: make([]ofLocation[T], len(p.Location)+1), other: map[*profile.Location]*ofLocation[T]{},
	}
}

// valuesOf returns a pointer to the values of a location.
func (k *perLocation[T]) valuesOf(l *profile.Location) *[]T {
	if l.ID < uint64(len(k.small)) {
		at := &k.small[l.ID]
		if at.location == nil {
			at.location = l
		}
		if at.location == l {
			return &at.stands
		}
	}
	at := k.other[l]
	if at == nil {
		at = &ofLocation[T]{location: l}
		k.other[l] = at
	}
	return &at.stands
}
