package export

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kind"
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
	value   int   // which of the samples' values is shown
	taken   int   // which of them says how many samples were taken; -1: none
	period  int64 // the value of each sample that was taken; 0 if that is not known or if each has its own
	known   map[*profile.Location][]frame

	processes bool // root frames are names of processes
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

// unit is what values are counted in.
func (s *stacks) unit() string { return s.profile.SampleType[s.value].Unit }

// valueOf returns how much a sample counts.
func (s *stacks) valueOf(sample *profile.Sample) int64 { return sample.Value[s.value] }

// findPeriod finds the period.
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
	for _, sample := range s.profile.Sample { // those of a probe may have a value of its arguments
		if s.valueOf(sample) != each*sample.Value[s.taken] {
			return 0
		}
	}
	return each
}

// total is the value of all samples.
func (s *stacks) total() (sum int64) {
	for _, sample := range s.profile.Sample {
		sum += s.valueOf(sample)
	}
	return sum
}

// count returns how many samples were taken for one of the profile, false where that is not known. A profile of before
// Headwater wrote the number, or of another tool, has it where each sample stands for the same value.
func (s *stacks) count(sample *profile.Sample) (n int64, known bool) {
	if s.taken >= 0 {
		return sample.Value[s.taken], true
	}
	if s.period > 0 {
		return (s.valueOf(sample) + s.period/2) / s.period, true
	}
	return 0, false
}

// samples is how many samples were taken, false if that is not known.
func (s *stacks) samples() (sum int64, known bool) {
	known = len(s.profile.Sample) > 0
	for _, sample := range s.profile.Sample {
		n, ok := s.count(sample)
		sum, known = sum+n, known && ok
	}
	return sum, known
}

// weight is how much a sample counts in formats that count samples: how many were taken, if each stands for the same;
// else its value.
func (s *stacks) weight(sample *profile.Sample) int64 {
	if n, ok := s.count(sample); ok && s.period > 0 {
		return n
	}
	return s.valueOf(sample)
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
