package pprof

import (
	"slices"

	"github.com/google/pprof/profile"
)

// location is a location of the profile, in a list of locations with the same key. A recording has some hundred
// thousand locations, so their contents are stored only once, in the form of the profile.
type location struct {
	*profile.Location
	next *location
}

// mapping identifies a mapping in a profile. Locations with and without names have separate mappings: if a mapping is
// marked as having functions, Pyroscope does not look up names for its other locations.
type mapping struct {
	Mapping
	named bool
}

// mappingOf returns the mapping of a Location, with clean text.
func mappingOf(l *Location) (clean mapping) {
	if l.Mapping != nil {
		clean.Mapping = *l.Mapping
	}
	clean.File = cleanText(clean.File, maxText)
	clean.BuildID = cleanBuildID(clean.BuildID)
	clean.named = len(l.Lines) > 0
	return clean
}

// clean returns the line with clean text and both names set.
func (l Line) clean() Line {
	l.Function = cleanText(l.Function, maxText)
	l.SystemName = cleanText(l.SystemName, maxText)
	l.File = cleanText(l.File, maxText)
	if l.Function == "" {
		l.Function = unnamed
	}
	if l.SystemName == "" {
		l.SystemName = l.Function
	}
	return l
}

// locationKey is equal for equal locations of a profile, and differs for almost all different locations.
type locationKey struct {
	mapping  *profile.Mapping
	function *profile.Function // innermost function, nil if there is none
	address  uint64
	line     int64
}

func keyOf(l *profile.Location) locationKey {
	k := locationKey{mapping: l.Mapping, address: l.Address}
	if len(l.Line) > 0 {
		k.function, k.line = l.Line[0].Function, l.Line[0].Line
	}
	return k
}

// equal reports whether two locations of a profile have the same content.
func equal(a, b *profile.Location) bool {
	return a.Mapping == b.Mapping && a.Address == b.Address && slices.Equal(a.Line, b.Line)
}
