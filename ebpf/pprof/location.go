package pprof

import (
	"encoding/binary"

	"github.com/google/pprof/profile"
)

// location is a Location with clean text, and its place in the part that takes
// new samples.
type location struct {
	id      int
	mapping mapping
	address uint64
	lines   []Line

	price  int    // upper bound of the bytes it adds to a part that has nothing of it
	priced uint64 // the last round of Builder.price that counted it

	in  *part // the last part it was added to
	out *profile.Location
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
	clean.price = locationSize(clean) + mappingSize + textSize(clean.mapping.File) + textSize(clean.mapping.BuildID)
	for _, line := range clean.lines {
		clean.price += functionSize + textSize(line.Function) + textSize(line.File)
		if line.SystemName != line.Function {
			clean.price += textSize(line.SystemName)
		}
	}
	return clean
}

// content returns a key that is equal for equal locations.
func (l *location) content() string {
	m := &l.mapping
	key := make([]byte, 0, 128)
	key = appendText(key, m.File)
	key = appendText(key, m.BuildID)
	for _, n := range []uint64{m.Start, m.Limit, m.Offset, l.address} {
		key = binary.LittleEndian.AppendUint64(key, n)
	}
	for _, line := range l.lines {
		key = appendText(key, line.Function)
		key = appendText(key, line.SystemName)
		key = appendText(key, line.File)
		key = binary.LittleEndian.AppendUint64(key, uint64(line.Line))
	}
	return string(key)
}
