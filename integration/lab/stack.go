package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Frame is one function of a stack as a profile shows it.
type Frame struct {
	Name    string
	File    string // of its mapping; "" where there is none
	BuildID string
}

// Stack is a sample's stack trace, the outermost frame first.
type Stack struct {
	Frames []Frame
	Value  int64 // nanoseconds of CPU
}

// Stacks returns the samples of a profile, the most expensive first.
func Stacks(p *profile.Profile) []Stack {
	var found []Stack
	for _, sample := range p.Sample {
		s := Stack{Value: sample.Value[0]}
		for _, location := range slices.Backward(sample.Location) {
			f := Frame{Name: "(no function)"}
			// The last line is the function that the code lies in; the others were inlined.
			if lines := location.Line; len(lines) > 0 && lines[len(lines)-1].Function != nil {
				f.Name = lines[len(lines)-1].Function.Name
			}
			if location.Mapping != nil {
				f.File, f.BuildID = location.Mapping.File, location.Mapping.BuildID
			}
			s.Frames = append(s.Frames, f)
		}
		found = append(found, s)
	}
	slices.SortStableFunc(found, func(a, b Stack) int { return int(b.Value - a.Value) })
	return found
}

// OfCommand returns the stacks of the processes of one name, which is the root frame.
func OfCommand(all []Stack, comm string) []Stack {
	var found []Stack
	for _, s := range all {
		if len(s.Frames) > 0 && s.Frames[0].Name == comm {
			found = append(found, s)
		}
	}
	return found
}

// Total adds up the CPU time of stacks.
func Total(all []Stack) int64 {
	sum := int64(0)
	for _, s := range all {
		sum += s.Value
	}
	return sum
}

// Names returns the names of the frames, outermost first.
func (s Stack) Names() []string {
	names := make([]string, 0, len(s.Frames))
	for _, f := range s.Frames {
		names = append(names, f.Name)
	}
	return names
}

// Has reports whether a frame has that name.
func (s Stack) Has(name string) bool {
	return slices.ContainsFunc(s.Frames, func(f Frame) bool { return f.Name == name })
}

// String implements fmt.Stringer.
func (s Stack) String() string {
	return fmt.Sprintf("%d ms: %s", s.Value/1_000_000, strings.Join(s.Names(), " > "))
}

// Show renders the first stacks for a failed test.
func Show(all []Stack, most int) string {
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
