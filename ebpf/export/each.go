package export

import (
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Frame is a function of a stack. It is equal for calls of the same function in the same binary.
type Frame struct {
	Name   string
	Binary string // file that its code is in; "" for what is no code, or not known
}

// incompleteMark begins the name of a frame that stands for outer frames that are missing.
const incompleteMark = "[incomplete: "

// guessedMark begins the name of a frame before callers that may not be all there are.
const guessedMark = "[guessed: "

// Named reports whether the function has a name of its own, not only an address.
func (f Frame) Named() bool {
	base := Function{Binary: f.Binary}.Where()
	return f.Name != unnamed && !strings.HasPrefix(f.Name, "0x") && (base == "" || !strings.HasPrefix(f.Name, base+"+0x"))
}

// Stack is one of the stacks of a profile. Code that calls itself has several equal frames.
type Stack struct {
	Process string  // its name, and its PID if that is known; "" if neither is
	Missing string  // why frames are missing, or may be; "" if none are, or that is not known
	Frames  []Frame // of code, root first, never empty
	Value   int64
	Samples int64 // that were taken of it; 0 if that is not known
}

// Stacks returns the stacks of a profile, with what their values are and the value of each sample
// that was taken, 0 if that is not known or if each has its own.
func Stacks(p *profile.Profile) (all []Stack, of profile.ValueType, period int64, err error) {
	s, err := newStacks(p)
	if err != nil {
		return nil, of, 0, err
	}
	for _, sample := range p.Sample {
		if s.valueOf(sample) != 0 {
			all = append(all, s.parts(sample))
		}
	}
	return all, *p.SampleType[s.value], s.period, nil
}

// parts divides the frames of a sample into code and what stands before it.
func (s *stacks) parts(sample *profile.Sample) Stack {
	out := Stack{Value: s.valueOf(sample)}
	out.Samples, _ = s.count(sample)
	if t, ok := threadOf(sample); ok && t.pid != 0 {
		out.Process = "(" + strconv.FormatInt(t.pid, 10) + ")"
	}
	for i, f := range s.code(sample) {
		mark, incomplete := strings.CutPrefix(f.name, incompleteMark)
		switch {
		case incomplete && f.binary == "":
			out.Missing = strings.TrimSuffix(mark, "]")
		case strings.HasPrefix(f.name, guessedMark) && f.binary == "":
			if out.Missing == "" {
				out.Missing = strings.Trim(f.name, "[]")
			}
		case i == 0 && s.processes && len(sample.Location) > 0:
			out.Process = strings.TrimSpace(f.name + " " + out.Process)
		default:
			out.Frames = append(out.Frames, Frame{f.name, f.binary})
		}
	}
	if len(out.Frames) == 0 {
		out.Frames = []Frame{{Name: unnamed}}
	}
	return out
}
