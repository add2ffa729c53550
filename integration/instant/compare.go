package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headwater/headwater/integration/walks"
)

// verdict is what came of one stack.
type verdict struct {
	difference string // "" as far as both go
	at         int    // the first frame that differs
	compared   int    // frames that both should have, without the sampled instruction
	agreed     int
	unchecked  int // frames after the one where libgcc knows no call frame information
	missing    int // frames after the end of a walk that says that it is incomplete
}

// The differences.
const (
	otherFrame = "other_frame" // a frame is another one
	endedEarly = "ended_early" // called complete, but libgcc goes on
	pastRoot   = "past_root"   // goes on after the outermost frame
)

// judge compares a walk with a trace of the same instant, frame by frame.
func (f *files) judge(w *walks.Walk, t *trace) verdict {
	both := min(len(w.Frames), len(t.frames))
	v := verdict{compared: max(both-1, 0)}
	for i := 1; i < both; i++ {
		if f.same(w.Frames[i], t.frames[i]) {
			v.agreed++
		} else if v.difference == "" {
			v.difference, v.at = otherFrame, i
		}
	}
	ours, theirs := len(w.Frames)-both, len(t.frames)-both
	switch {
	case v.difference != "":
	case theirs > 0 && w.Outcome.Complete():
		v.difference, v.at = endedEarly, both
		v.compared += theirs
	case theirs > 0:
		v.missing = theirs
	case ours > 0 && t.end == atRoot:
		v.difference, v.at = pastRoot, both
		v.compared += ours
	default:
		v.unchecked = ours
	}
	return v
}

// files knows which places are the same. The dynamic linker has the path that it
// searched; the profiler has the kernel's, of one of the processes that have an equal file.
type files struct {
	contents map[string]string // hash by path; "" for what is gone
	bases    map[string]uint64 // of code that Java VMs have made
}

func newFiles() *files { return &files{map[string]string{}, map[string]uint64{}} }

// content returns a hash of what is in a file.
func (f *files) content(path string) string {
	hash, known := f.contents[path]
	if !known {
		if b, err := os.ReadFile(path); err == nil {
			hash = fmt.Sprintf("%x", sha256.Sum256(b))
		}
		f.contents[path] = hash
	}
	return hash
}

// same reports whether the profiler's place is the same as that of a trace.
func (f *files) same(ours, theirs walks.Place) bool {
	if theirs.File == "" && ours.IsJava() {
		return f.sameCode(ours, theirs)
	}
	switch {
	case ours.Address != theirs.Address || (ours.File == "") != (theirs.File == ""):
		return false
	case ours.File == theirs.File:
		return true
	}
	a, b := f.content(ours.File), f.content(theirs.File)
	if a == "" || b == "" {
		return filepath.Base(ours.File) == filepath.Base(theirs.File)
	}
	return a == b
}

// sameCode compares addresses in code that a Java VM has made. The profiler's are
// relative to a base that it does not say, but which is the same for all of a VM.
func (f *files) sameCode(ours, theirs walks.Place) bool {
	base, known := f.bases[ours.File]
	if !known {
		base = theirs.Address - ours.Address
		f.bases[ours.File] = base
	}
	return theirs.Address-ours.Address == base
}

// compare compares each trace with the walk of its sample.
func compare(all []walks.Walk, libgcc *traces, examples int) *Report {
	c := comparison{report: newReport(libgcc), files: newFiles(), examples: examples}
	byThread := map[uint32][]walks.Walk{}
	for _, w := range all {
		byThread[w.TID] = append(byThread[w.TID], w)
	}
	for tid, list := range libgcc.byThread {
		c.thread(byThread[tid], list)
	}
	c.report.finish()
	return c.report
}

type comparison struct {
	report   *Report
	files    *files
	examples int
}

// matcher finds the samples of a thread that signals were handled at, both in order of
// time. A signal is handled after its sample was taken and before the thread runs on, so its
// sample is the last one before it that was not taken while another one was handled. The handler looks at the clock
// when it has begun: samples before that are known by its frames.
type matcher struct {
	samples []walks.Walk // that are left
	handled uint64       // when the last signal was
}

// sample returns the sample of a signal, nil if there is none.
func (m *matcher) sample(entered, left uint64) (of *walks.Walk) {
	for ; len(m.samples) > 0 && m.samples[0].Time < entered; m.samples = m.samples[1:] {
		if m.samples[0].Time > m.handled && !inHandler(&m.samples[0]) {
			of = &m.samples[0]
		}
	}
	m.handled = left
	return of
}

// inHandler reports whether a sample was taken in the library that is preloaded, which does nothing but handle signals.
func inHandler(w *walks.Walk) bool {
	return slices.ContainsFunc(w.Frames, func(f walks.Place) bool { return strings.HasSuffix(f.File, librarySuffix) })
}

// inProbe reports whether a place is in the page of a process to which the kernel copies the instructions that uprobes
// are at, of any profiler of the host. The profiler says where an instruction is from; libgcc knows no such page.
func inProbe(theirs walks.Place) bool {
	const page, size = 0x7fffffffe000, 0x1000 // the last of the address space of x86-64
	return theirs.File == "" && theirs.Address-page < size
}

// thread compares what was taken in one thread, both in order of time.
func (c *comparison) thread(samples []walks.Walk, list []trace) {
	m := matcher{samples: samples}
	for i := range list {
		t := &list[i]
		switch of := m.sample(t.entered, t.left); {
		case of == nil:
			c.report.NoSample++
		case of.Replaced:
			c.report.Replaced++
		case len(of.Frames) == 0 || len(t.frames) == 0:
			c.report.NoFrames[of.Outcome.String()]++
		case inProbe(t.frames[0]):
			c.report.NoFrames["instruction copied for a uprobe"]++
		case !c.files.same(of.Frames[0], t.frames[0]):
			c.report.OtherInstant++
			c.example("other_instant", of, t, verdict{})
		default:
			c.count(of, t)
		}
	}
}

// count adds a stack to the report.
func (c *comparison) count(w *walks.Walk, t *trace) {
	v := c.files.judge(w, t)
	for _, p := range []*Program{&c.report.Program, c.report.program(w.Comm)} {
		p.Stacks++
		p.Frames += v.compared
		p.Agreed += v.agreed
		p.Unchecked += v.unchecked
		p.Missing += v.missing
		switch {
		case v.difference != "":
			p.Differ[v.difference]++
		case w.Outcome.Complete() && t.end == atRoot:
			p.Whole++
		case !w.Outcome.Complete():
			p.Incomplete[w.Outcome.String()]++
		default:
			p.Partial++
		}
	}
	if v.difference != "" {
		c.example(v.difference, w, t, v)
	}
}

// example keeps a stack to be shown in full, a few of each kind and program.
func (c *comparison) example(kind string, w *walks.Walk, t *trace, v verdict) {
	alike := func(e Example) bool { return e.Difference == kind && e.Command == w.Comm }
	if n := len(slices.Collect(filter(c.report.Examples, alike))); n >= c.examples {
		return
	}
	e := Example{Difference: kind, Command: w.Comm, Outcome: w.Outcome.String(), End: t.end.String(), At: v.at}
	for i := range max(len(w.Frames), len(t.frames)) {
		e.Frames = append(e.Frames, [2]string{text(w.Frames, i), text(t.frames, i)})
	}
	c.report.Examples = append(c.report.Examples, e)
}
