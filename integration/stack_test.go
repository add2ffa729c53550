package integration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// frame is one function of a stack as a profile shows it.
type frame struct {
	name    string
	file    string // of its mapping; "" where there is none
	buildID string
}

// stack is a sample's stack trace, the outermost frame first.
type stack struct {
	frames []frame
	value  int64 // nanoseconds of CPU
}

// stacks returns the samples of a profile, the most expensive first.
func stacks(p *profile.Profile) []stack {
	var found []stack
	for _, sample := range p.Sample {
		s := stack{value: sample.Value[0]}
		for _, location := range slices.Backward(sample.Location) {
			f := frame{name: "(no function)"}
			// The last line is the function that the code lies in; the others were inlined.
			if lines := location.Line; len(lines) > 0 && lines[len(lines)-1].Function != nil {
				f.name = lines[len(lines)-1].Function.Name
			}
			if location.Mapping != nil {
				f.file, f.buildID = location.Mapping.File, location.Mapping.BuildID
			}
			s.frames = append(s.frames, f)
		}
		found = append(found, s)
	}
	slices.SortStableFunc(found, func(a, b stack) int { return int(b.value - a.value) })
	return found
}

// ofCommand keeps the stacks whose root frame is the name of a process.
func ofCommand(all []stack, comm string) []stack {
	var found []stack
	for _, s := range all {
		if len(s.frames) > 0 && s.frames[0].name == comm {
			found = append(found, s)
		}
	}
	return found
}

// total adds up the CPU time of stacks.
func total(all []stack) int64 {
	sum := int64(0)
	for _, s := range all {
		sum += s.value
	}
	return sum
}

// names returns the names of the frames, outermost first.
func (s stack) names() []string {
	names := make([]string, 0, len(s.frames))
	for _, f := range s.frames {
		names = append(names, f.name)
	}
	return names
}

func (s stack) has(name string) bool {
	return slices.ContainsFunc(s.frames, func(f frame) bool { return f.name == name })
}

func (s stack) String() string {
	return fmt.Sprintf("%d ms: %s", s.value/1_000_000, strings.Join(s.names(), " > "))
}

// show renders the first stacks for a failed test.
func show(all []stack, most int) string {
	var text strings.Builder
	for i, s := range all {
		if i == most {
			fmt.Fprintf(&text, "... and %d more\n", len(all)-most)
			break
		}
		fmt.Fprintln(&text, s)
	}
	return text.String()
}
