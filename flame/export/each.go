package export

import (
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Frame is a function in a stack. Calls of the same function in the same binary have equal Frames.
type Frame struct {
	Name   string
	Binary string // file with its code; "" if it is no code, or if the file is unknown
}

// incompleteMark is the prefix of the name of a frame that stands for missing outer frames.
const incompleteMark = "[incomplete: "

// guessedMark is the prefix of the name of a frame before callers that may be incomplete.
const guessedMark = "[guessed: "

// Named reports whether the function has a name of its own, not only an address.
func (f Frame) Named() bool {
	base := Function{Binary: f.Binary}.Where()
	return f.Name != unnamed && !strings.HasPrefix(f.Name, "0x") && (base == "" || !strings.HasPrefix(f.Name, base+"+0x"))
}

// Stack is a stack of a profile. Recursive code has several equal frames.
type Stack struct {
	Process string  // name and PID of the process, as far as known
	Missing string  // why frames are missing, or may be; "" if the stack is complete, or if this is unknown
	Frames  []Frame // of code, root first, never empty
	Value   int64
	Samples int64 // number of samples taken; 0 if unknown
}

// Stacks returns the stacks of a profile, the type of their values, and the value of each sample that was taken, which
// is 0 if it is unknown or if samples have different values.
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

// parts splits the frames of a sample into its process, the remark about missing frames, and code.
func (s *stacks) parts(sample *profile.Sample) Stack {
	out := Stack{Value: s.valueOf(sample)}
	out.Samples, _ = s.count(sample)
	if t, ok := threadOf(sample); ok && t.pid != 0 {
		out.Process = "(" + strconv.FormatInt(t.pid, 10) + ")"
	}
	for i, f := range s.codeFrames(sample) {
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
