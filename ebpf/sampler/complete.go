package sampler

import (
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/target"
)

// Sample is a finished sample: its user part is as complete as it can be. It is valid until
// the function that it was handed to returns.
type Sample struct {
	*kernel.Sample

	Target      *target.Target // as Options.Target said
	ProcessComm string         // name that the process had then, which is the one of its first thread
	OutsideFile bool           // some user frame is in code of no file
	// Interpreted is User with the frames of interpreters among them, leaf first; nil: there
	// are none.
	Interpreted []kernel.Frame
	Language    string // of those, "" if there are none
}

// Frames returns all user frames, those of interpreters too, leaf first.
func (s *Sample) Frames() []kernel.Frame {
	if s.Interpreted != nil {
		return s.Interpreted
	}
	return s.User
}

// complete completes a sample.
func (s *Sampler) complete(sample *Sample) {
	view := &s.view
	*view = s.tracker.At(sample.PID, sample.Time)
	completeStack(s.tracker, view, sample.Sample)
	if !sample.Outcome.Complete() {
		recheck(view, sample.Sample)
		s.sideBand.blame(sample.Sample)
	}
	identify(view, sample.Sample)
	s.interpreted.languages.addJITCode(view, sample.Sample)
	sample.Interpreted = s.interpreted.frames(s.tracker, view, sample.Sample)
	sample.Language = ""
	if by, ok := view.Interpretation(); ok && sample.Interpreted != nil && by.Interpreter != nil {
		sample.Language = by.Language()
	}
	sample.OutsideFile = slices.ContainsFunc(sample.User, outsideFile)
	sample.ProcessComm = sample.Comm
	if comm := view.Comm(); comm != "" && sample.TID != sample.PID {
		sample.ProcessComm = comm
	}
}

// outsideFile reports whether a frame is in code that is in no file.
func outsideFile(f kernel.Frame) bool { return f.Exe == 0 || f.Code != 0 }
