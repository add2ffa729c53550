package rig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
)

// Frame is one function of a stack in a profile.
type Frame struct {
	Name    string // the function that contains the code; inlined functions are in Stack.Functions
	File    string // of its mapping; "" if it has none
	BuildID string
}

// Stack is a sample's stack trace, outermost frame first.
type Stack struct {
	Frames    []Frame
	Functions []string // names of all functions, including inlined ones
	Value     int64    // the first value that is not a number of samples: nanoseconds of CPU
}

// Stacks returns the samples of a profile, the most expensive first.
func Stacks(p *profile.Profile) []Stack {
	var found []Stack
	measured := 0
	if len(p.SampleType) > 1 && p.SampleType[0].Type == "samples" {
		measured = 1
	}
	for _, sample := range p.Sample {
		s := Stack{Value: sample.Value[measured]}
		for _, location := range slices.Backward(sample.Location) {
			f := frameOf(location)
			s.Frames = append(s.Frames, f)
			s.Functions = append(append(s.Functions, f.Name), inlinedAt(location)...)
		}
		found = append(found, s)
	}
	slices.SortStableFunc(found, func(a, b Stack) int { return int(b.Value - a.Value) })
	return found
}

// frameOf returns the frame of a location. Its last line is the function that contains the code.
func frameOf(l *profile.Location) Frame {
	f := Frame{Name: "(no function)"}
	if last := len(l.Line) - 1; last >= 0 && l.Line[last].Function != nil {
		f.Name = l.Line[last].Function.Name
	}
	if l.Mapping != nil {
		f.File, f.BuildID = l.Mapping.File, l.Mapping.BuildID
	}
	return f
}

// inlinedAt returns the functions inlined at a location, outermost first.
func inlinedAt(l *profile.Location) (names []string) {
	for _, line := range slices.Backward(l.Line[:max(len(l.Line)-1, 0)]) {
		if line.Function != nil {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

// OfCommand returns the stacks of the processes with a name, which is the root frame.
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

// Names returns the names of the frames, outermost first, without inlined functions.
func (s Stack) Names() []string {
	names := make([]string, 0, len(s.Frames))
	for _, f := range s.Frames {
		names = append(names, f.Name)
	}
	return names
}

// Has reports whether the stack contains a function, which may be inlined.
func (s Stack) Has(name string) bool { return slices.Contains(s.Functions, name) }

// IsUnready reports whether the stack is incomplete because the profiler had not read the process or its files yet.
func (s Stack) IsUnready() bool { return slices.ContainsFunc(s.Functions, testkit.IsUnready) }

// String implements fmt.Stringer.
func (s Stack) String() string {
	return fmt.Sprintf("%d ms: %s", s.Value/1_000_000, strings.Join(s.Functions, " > "))
}

// Show formats the first stacks for a failed test.
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
