package export

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/tree"
)

// Recorded is the prefix of the comment of a profile that describes the selection of a recording.
const Recorded = "headwater record: "

// Title returns the title of a profile: the selection of its recording or, as pprof shows it, its first mapping.
func Title(p *profile.Profile) string {
	for _, comment := range p.Comments {
		if of, ok := strings.CutPrefix(comment, Recorded); ok {
			return of
		}
	}
	if len(p.Mapping) > 0 && p.Mapping[0].File != "" {
		return path.Base(p.Mapping[0].File) // as in pprof
	}
	return "profile"
}

// unnamed is the name of code with neither a name nor an address.
const unnamed = "[unknown]"

// frame is a function in a stack. Calls of the same function at the same line have equal frames.
type frame struct {
	name      string
	system    string // name for the linker
	file      string // source file
	line      int64
	startLine int64
	binary    string // path of the file with the code, "" if it is no code
	inlined   bool   // inlined into the previous frame
}

// stacks reads the samples of a profile.
type stacks struct {
	profile *profile.Profile
	value   int   // index of the sample value to show
	taken   int   // index of the sample value with the number of samples taken; -1 if none
	period  int64 // value of each sample taken; 0 if unknown or if values differ
	known   map[*profile.Location][]frame

	processes bool // see rootsAreProcesses
}

func newStacks(p *profile.Profile) (*stacks, error) {
	value, err := p.SampleIndexByName("")
	if err != nil {
		return nil, err
	}
	s := &stacks{
		profile: p, value: value, taken: slices.IndexFunc(p.SampleType, pprof.IsCount),
		known: map[*profile.Location][]frame{}, processes: rootsAreProcesses(p),
	}
	s.period = s.findPeriod()
	return s, nil
}

// valueUnit returns the unit of values.
func (s *stacks) valueUnit() string { return s.profile.SampleType[s.value].Unit }

// valueOf returns the value of a sample.
func (s *stacks) valueOf(sample *profile.Sample) int64 { return sample.Value[s.value] }

// findPeriod returns the value for period.
func (s *stacks) findPeriod() int64 {
	of, by := s.profile.SampleType[s.value], s.profile.PeriodType
	if by == nil || of.Type != by.Type || of.Unit != by.Unit {
		return 0
	}
	if k, ok := kind.ByValue(of.Type); ok && !k.IsPeriodic() {
		return 0
	}
	each := max(s.profile.Period, 0)
	if s.taken < 0 {
		return each
	}
	for _, sample := range s.profile.Sample { // samples of a probe may have values from its arguments
		if s.valueOf(sample) != each*sample.Value[s.taken] {
			return 0
		}
	}
	return each
}

// total returns the value of all samples.
func (s *stacks) total() (sum int64) {
	for _, sample := range s.profile.Sample {
		sum += s.valueOf(sample)
	}
	return sum
}

// count returns the number of samples taken that a sample of the profile stands for. known is false if there is no such
// number. Profiles of other tools, or of a Headwater that did not write the number yet, have it only if all samples
// have the same value.
func (s *stacks) count(sample *profile.Sample) (n int64, known bool) {
	if s.taken >= 0 {
		return sample.Value[s.taken], true
	}
	if s.period > 0 {
		return (s.valueOf(sample) + s.period/2) / s.period, true
	}
	return 0, false
}

// samples returns the number of samples taken. known is false if it is unknown.
func (s *stacks) samples() (sum int64, known bool) {
	known = len(s.profile.Sample) > 0
	for _, sample := range s.profile.Sample {
		n, ok := s.count(sample)
		sum, known = sum+n, known && ok
	}
	return sum, known
}

// weight returns the weight of a sample in formats that count samples: the number of samples taken if all have the same
// value, otherwise its value.
func (s *stacks) weight(sample *profile.Sample) int64 {
	if n, ok := s.count(sample); ok && s.period > 0 {
		return n
	}
	return s.valueOf(sample)
}

// stack returns the frames of a sample, root first. Its thread, if known, is a frame below the process.
func (s *stacks) stack(sample *profile.Sample) []frame {
	out := s.codeFrames(sample)
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

// codeFrames is like stack, without the thread.
func (s *stacks) codeFrames(sample *profile.Sample) (out []frame) {
	for i := len(sample.Location) - 1; i >= 0; i-- {
		out = append(out, s.frames(sample.Location[i])...)
	}
	if len(out) == 0 {
		out = []frame{{name: unnamed}}
	}
	return out
}

// frames returns the frames of a location, outermost function first.
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
		out = []frame{{name: tree.AddressName(l), binary: binary}}
	}
	s.known[l] = out
	return out
}

// thread identifies the thread of a sample.
type thread struct {
	pid, tid int64
	name     string
}

func (t thread) String() string { return fmt.Sprintf("%s (%d)", t.name, t.tid) }

// threadOf returns the thread of a sample. ok is false if the sample has no label with a thread ID.
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

// times returns the times, in ns since 1970, of the samples taken that a sample of the profile stands for; none if
// unknown.
func times(s *profile.Sample) []int64 { return s.NumLabel[pprof.Timestamp] }
