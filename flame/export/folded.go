package export

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Folded writes a line for each stack: its functions, root first, separated by semicolons, a space, and the number of
// samples or, if samples have different values, the value: the nanoseconds of waits, the bytes of memory. Brendan
// Gregg's stackcollapse scripts write the same format. Lines are sorted. Semicolons and line ends in names become
// colons and spaces.
func Folded(w io.Writer, p *profile.Profile) error {
	lines, err := foldedLines(p)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, stack := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(out, "%s %d\n", stack, lines[stack]) // Flush reports errors
	}
	return out.Flush()
}

// foldedLines returns the number for each stack.
func foldedLines(p *profile.Profile) (map[string]int64, error) {
	s, err := newStacks(p)
	if err != nil {
		return nil, err
	}
	clean := strings.NewReplacer(";", ":", "\n", " ", "\r", " ")
	lines := map[string]int64{}
	var line strings.Builder
	for _, sample := range p.Sample {
		line.Reset()
		for i, f := range s.stack(sample) {
			if i > 0 {
				line.WriteByte(';')
			}
			clean.WriteString(&line, f.name)
		}
		lines[line.String()] += s.weight(sample)
	}
	return lines, nil
}
