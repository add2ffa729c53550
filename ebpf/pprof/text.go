package pprof

import (
	"unicode/utf8"

	"github.com/headwater/headwater/ebpf/printable"
)

// unnamed stands for a stack without frames.
const unnamed = "[unknown]"

// pseudoFrame returns a location that is a name only.
func pseudoFrame(name string) *Location {
	return &Location{Lines: []Line{{Function: name}}}
}

// maxText bounds one string in bytes. Pyroscope cuts strings of 64 KiB from the
// front; names that long are C++ templates nobody reads to the end.
const maxText = 8 << 10

// ellipsis ends a string that was cut.
const ellipsis = "..."

// cleanText returns s as printable text, and not longer than limit bytes. Pyroscope
// insists on valid UTF-8.
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

// cleanBuildID returns id if it is made of hex digits, else "". One build ID of
// another form makes every query of its service fail in Pyroscope.
func cleanBuildID(id string) string {
	for i := range len(id) {
		c := id[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return ""
		}
	}
	return id
}
