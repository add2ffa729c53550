package export

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/trie"
)

// Recorded begins the comment of a profile that says what was recorded.
const Recorded = "headwater record: "

// Title says what a profile is of.
func Title(p *profile.Profile) string {
	for _, comment := range p.Comments {
		if of, ok := strings.CutPrefix(comment, Recorded); ok {
			return of
		}
	}
	if len(p.Mapping) > 0 && p.Mapping[0].File != "" {
		return path.Base(p.Mapping[0].File) // as pprof does
	}
	return "profile"
}

// unnamed stands for code that has neither a name nor an address.
const unnamed = "[unknown]"

// frame is a function of a stack. It is equal for calls of the same function at the same line.
type frame struct {
	name      string
	system    string // as the linker knows it
	file      string // of the source
	line      int64
	startLine int64
	binary    string // path of the file that the code is in, "" if it is no code
	inlined   bool   // into the frame before it
}

// stacks reads the samples of a profile.
type stacks struct {
	profile *profile.Profile
	value   int // which of the samples' values counts
	known   map[*profile.Location][]frame

	processes bool // root frames are names of processes
}

func newStacks(p *profile.Profile) (*stacks, error) {
	value, err := p.SampleIndexByName("")
	if err != nil {
		return nil, err
	}
	return &stacks{
		profile: p, value: value, known: map[*profile.Location][]frame{}, processes: rootsAreProcesses(p),
	}, nil
}

// unit is what values are counted in.
func (s *stacks) unit() string { return s.profile.SampleType[s.value].Unit }

// valueOf returns how much a sample counts.
func (s *stacks) valueOf(sample *profile.Sample) int64 { return sample.Value[s.value] }

// period is the value of one sample that was taken, 0 if that is not known.
func (s *stacks) period() int64 {
	of, by := s.profile.SampleType[s.value], s.profile.PeriodType
	if by == nil || of.Type != by.Type || of.Unit != by.Unit {
		return 0
	}
	return max(s.profile.Period, 0)
}

// total is the value of all samples.
func (s *stacks) total() (sum int64) {
	for _, sample := range s.profile.Sample {
		sum += s.valueOf(sample)
	}
	return sum
}

// count returns how many samples were taken for one of the profile: its value, where that is
// not known.
func (s *stacks) count(sample *profile.Sample) int64 {
	period := s.period()
	if period == 0 {
		return s.valueOf(sample)
	}
	return (s.valueOf(sample) + period/2) / period
}

// stack returns the frames of a sample, root first. Its thread, if it is known, is a frame
// below the process.
func (s *stacks) stack(sample *profile.Sample) []frame {
	out := s.code(sample)
	thread, ok := threadOf(sample)
	if !ok {
		return out
	}
	at := 0
	if s.processes && len(sample.Location) > 0 {
		at = 1
	}
	return append(append(append([]frame(nil), out[:at]...), frame{name: thread.String()}), out[at:]...)
}

// code is stack without the thread.
func (s *stacks) code(sample *profile.Sample) (out []frame) {
	for i := len(sample.Location) - 1; i >= 0; i-- {
		out = append(out, s.frames(sample.Location[i])...)
	}
	if len(out) == 0 {
		out = []frame{{name: unnamed}}
	}
	return out
}

// frames returns what a location stands for, outermost function first.
func (s *stacks) frames(l *profile.Location) []frame {
	if found, ok := s.known[l]; ok {
		return found
	}
	var out []frame
	binary := ""
	if l.Mapping != nil {
		binary = l.Mapping.File
	}
	for i := len(l.Line) - 1; i >= 0; i-- {
		f := frame{name: unnamed, line: l.Line[i].Line, binary: binary, inlined: i < len(l.Line)-1}
		if fn := l.Line[i].Function; fn != nil {
			f.name, f.system, f.file, f.startLine = fn.Name, fn.SystemName, fn.Filename, fn.StartLine
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		out = []frame{{name: trie.AddressName(l), binary: binary}}
	}
	s.known[l] = out
	return out
}

// thread is who a sample is of.
type thread struct {
	pid, tid int64
	name     string
}

func (t thread) String() string { return fmt.Sprintf("%s (%d)", t.name, t.tid) }

// threadOf returns the thread of a sample, false if it has no labels that say so.
func threadOf(s *profile.Sample) (t thread, ok bool) {
	number := func(label string) int64 {
		if values := s.Label[label]; len(values) > 0 {
			n, err := strconv.ParseInt(values[0], 10, 64)
			if err == nil {
				return n
			}
		}
		if values := s.NumLabel[label]; len(values) > 0 {
			return values[0]
		}
		return 0
	}
	t.pid, t.tid = number("pid"), number("thread_id")
	if names := s.Label["thread_name"]; len(names) > 0 {
		t.name = names[0]
	}
	return t, t.tid != 0
}

// times returns when the samples were taken that one of the profile stands for, ns since 1970;
// none if that is not known.
func times(s *profile.Sample) []int64 { return s.NumLabel[pprof.Timestamp] }
