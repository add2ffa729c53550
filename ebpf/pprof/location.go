package pprof

import (
	"slices"

	"github.com/google/pprof/profile"
)

// location is a Location with clean text, and as it is in the profile.
type location struct {
	id      int
	mapping mapping
	address uint64
	lines   []Line

	out  *profile.Location // nil: it was not added yet
	next *location         // another one with the same key
}

// mapping identifies a mapping in a profile. Locations with and without names
// have mappings of their own: where a mapping says that it has functions,
// Pyroscope does not look for those of the locations without.
type mapping struct {
	Mapping
	named bool
}

func cleanLocation(l *Location) *location {
	clean := &location{address: l.Address, lines: make([]Line, len(l.Lines))}
	if l.Mapping != nil {
		clean.mapping.Mapping = *l.Mapping
	}
	clean.mapping.File = cleanText(clean.mapping.File, maxText)
	clean.mapping.BuildID = cleanBuildID(clean.mapping.BuildID)
	clean.mapping.named = len(l.Lines) > 0
	for i, line := range l.Lines {
		line.Function = cleanText(line.Function, maxText)
		line.SystemName = cleanText(line.SystemName, maxText)
		line.File = cleanText(line.File, maxText)
		if line.Function == "" {
			line.Function = unnamed
		}
		if line.SystemName == "" {
			line.SystemName = line.Function
		}
		clean.lines[i] = line
	}
	return clean
}

// locationKey is equal for equal locations, and different for almost all others.
type locationKey struct {
	file, function string
	address        uint64
	line           int64
}

func (l *location) key() locationKey {
	k := locationKey{file: l.mapping.File, address: l.address}
	if len(l.lines) > 0 {
		k.function, k.line = l.lines[0].Function, l.lines[0].Line
	}
	return k
}

func (l *location) equal(o *location) bool {
	return l.mapping == o.mapping && l.address == o.address && slices.Equal(l.lines, o.lines)
}
