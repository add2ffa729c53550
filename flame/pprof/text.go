package pprof

import (
	"unicode/utf8"

	"github.com/headwater/headwater/flame/printable"
)

// unnamed is the frame of a stack without frames.
const unnamed = "[unknown]"

// pseudoFrame returns a location with only a name.
func pseudoFrame(name string) *Location {
	return &Location{Lines: []Line{{Function: name}}}
}

// maxText is the maximum size of a string in bytes. Pyroscope cuts strings of 64 KiB from the front; names that long
// are C++ templates whose end is of no interest.
const maxText = 8 << 10

// ellipsis ends a string that was cut.
const ellipsis = "..."

// cleanText returns s as printable text of at most limit bytes. Pyroscope requires valid UTF-8.
func cleanText(s string, limit int) string {
	if len(s) > limit {
		end := limit - len(ellipsis)
		for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(s[end]); back++ {
			end--
		}
		s = s[:end] + ellipsis
	}
	return printable.Text(s)
}

// cleanBuildID returns id if it has only hex digits, else "". A build ID in any other form makes every query of its
// service fail in Pyroscope.
func cleanBuildID(id string) string {
	for i := range len(id) {
		c := id[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return ""
		}
	}
	return id
}
