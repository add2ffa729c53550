package top

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/printable"
	"github.com/headwater/headwater/flame/tree"
)

// maxFrames bounds the frames of the stacks that a Window keeps. With more frames, it covers a shorter time.
const maxFrames = 4 << 20

// Frame is a function of a stack.
type Frame struct {
	Name   string
	Binary string // path of the file with its code, "" if it is not code
	Kind   tree.Kind
}

// Thread is the thread of a stack.
type Thread struct {
	PID, TID int64
	Name     string
	Process  string // name of the process
}

// stack is a thread with frames, root first, as numbers in a Window. The first frame is the process's name.
type stack struct {
	thread int32
	frames []int32
}

// counted is a stack and its value in nanoseconds of CPU.
type counted struct {
	*stack
	value int64
}

// part holds the samples of one round.
type part struct {
	record.Part
	counts record.Progress // only of this round
	values map[int32]int64 // by stack number
	frames int             // number of frames of the Profile's stacks
}

// Window keeps the samples of the last seconds. It is not safe for concurrent use.
type Window struct {
	span  time.Duration // the time that it covers
	parts []part        // oldest first
	last  record.Progress

	names   interned[Frame]
	threads interned[Thread]
	stacks  []stack
	numbers map[string]int32 // of stacks, by thread and frames
}

// NewWindow returns a Window that covers the last span.
func NewWindow(span time.Duration) *Window {
	w := &Window{span: span}
	w.forget()
	return w
}

// forget drops all names and stacks.
func (w *Window) forget() {
	w.names, w.threads = newInterned[Frame](), newInterned[Thread]()
	w.stacks, w.numbers = nil, map[string]int32{}
}

// Clear drops all samples.
func (w *Window) Clear() {
	w.parts = nil
	w.forget()
}

// Add adds the samples since the last call, and drops samples older than the span.
func (w *Window) Add(p record.Part) {
	counts := w.count(p.Progress)
	w.parts = append(w.parts, w.readPart(p, counts))
	frames := 0
	keep := len(w.parts) - 1 // always keep the newest
	oldest := p.Begun.Add(p.Duration).Add(-w.span)
	for ; keep >= 0; keep-- {
		of := &w.parts[keep]
		frames += of.frames
		if frames > maxFrames || !of.Begun.Add(of.Duration).After(oldest) {
			break
		}
	}
	if drop := min(keep+1, len(w.parts)-1); drop > 0 {
		w.parts = append([]part(nil), w.parts[drop:]...)
	}
	w.trimParts()
}

// Skip ignores the samples since the last call of Add or Skip.
func (w *Window) Skip(p record.Part) { w.count(p.Progress) }

// count returns the counts since the last call.
func (w *Window) count(now record.Progress) record.Progress {
	before := w.last
	w.last = now
	return record.Progress{
		Samples: now.Samples - before.Samples, WithUser: now.WithUser - before.WithUser,
		Whole: now.Whole - before.Whole, Lost: now.Lost - min(before.Lost, now.Lost),
		Expected: now.Expected - min(before.Expected, now.Expected),
	}
}

// trimParts drops unused names and stacks when they are the majority.
func (w *Window) trimParts() {
	const few = 1 << 14
	if len(w.stacks) < few {
		return
	}
	used := map[int32]bool{}
	for _, p := range w.parts {
		for n := range p.values {
			used[n] = true
		}
	}
	if len(w.stacks) < 2*len(used) {
		return
	}
	w.forget()
	for i, p := range w.parts {
		w.parts[i] = w.readPart(p.Part, p.counts)
	}
}

// readPart returns a part with its stacks, given the counts.
func (w *Window) readPart(p record.Part, counts record.Progress) part {
	out := part{Part: p, counts: counts, values: map[int32]int64{}}
	if p.Profile == nil || len(p.Profile.SampleType) == 0 {
		return out
	}
	value := len(p.Profile.SampleType) - 1 // CPU time; the value before it may be a number of samples
	known := map[*profile.Location][]int32{}
	for _, s := range p.Profile.Sample {
		of := stack{frames: make([]int32, 0, len(s.Location)+1)}
		for i := len(s.Location) - 1; i >= 0; i-- {
			l := s.Location[i]
			frames, ok := known[l]
			if !ok {
				frames = w.location(l)
				known[l] = frames
			}
			of.frames = append(of.frames, frames...)
		}
		if len(of.frames) == 0 {
			of.frames = append(of.frames, w.names.number(Frame{Name: "[unknown]", Kind: tree.Unnamed}))
		}
		of.thread = w.threads.number(threadOf(s, w.names.all[of.frames[0]].Name))
		out.values[w.number(of)] += s.Value[value]
		out.frames += len(s.Location)
	}
	return out
}

// number returns the number of a stack.
func (w *Window) number(s stack) int32 {
	key := binary.NativeEndian.AppendUint32(nil, uint32(s.thread))
	for _, f := range s.frames {
		key = binary.NativeEndian.AppendUint32(key, uint32(f))
	}
	n, ok := w.numbers[string(key)]
	if !ok {
		n = int32(len(w.stacks))
		w.stacks = append(w.stacks, s)
		w.numbers[string(key)] = n
	}
	return n
}

// location returns the functions at a location, outermost first.
func (w *Window) location(l *profile.Location) (out []int32) {
	binary := ""
	if l.Mapping != nil {
		binary = printable.Text(l.Mapping.File)
	}
	for i := len(l.Line) - 1; i >= 0; i-- {
		name := "[unknown]"
		if fn := l.Line[i].Function; fn != nil && fn.Name != "" {
			name = printable.Text(fn.Name)
		}
		kind := tree.KindOf(l.Mapping, name, i < len(l.Line)-1)
		out = append(out, w.names.number(Frame{Name: name, Binary: binary, Kind: kind}))
	}
	if len(out) == 0 {
		f := Frame{Name: "0x" + strconv.FormatUint(l.Address, 16), Binary: binary, Kind: tree.Unnamed}
		out = append(out, w.names.number(f))
	}
	return out
}

// threadOf returns the thread of a sample.
func threadOf(s *profile.Sample, process string) Thread {
	t := Thread{Process: process, PID: number(s, record.LabelPID), TID: number(s, record.LabelThreadID)}
	if names := s.Label[record.LabelThreadName]; len(names) > 0 {
		t.Name = printable.Text(names[0])
	}
	return t
}

func number(s *profile.Sample, label string) int64 {
	if texts := s.Label[label]; len(texts) > 0 {
		n, _ := strconv.ParseInt(texts[0], 10, 64) // 0 if unknown
		return n
	}
	if numbers := s.NumLabel[label]; len(numbers) > 0 {
		return numbers[0]
	}
	return 0
}

// totals returns the distinct stacks, with their values.
func (w *Window) totals() []counted {
	sums := make([]int64, len(w.stacks))
	for _, p := range w.parts {
		for n, value := range p.values {
			sums[n] += value
		}
	}
	var out []counted
	for n, value := range sums {
		if value > 0 {
			out = append(out, counted{&w.stacks[n], value})
		}
	}
	return out
}

// seconds returns the time covered by the kept samples.
func (w *Window) seconds() (sum float64) {
	for _, p := range w.parts {
		sum += p.Duration.Seconds()
	}
	return sum
}

// progress returns the counts of the kept samples.
func (w *Window) progress() (out record.Progress) {
	for _, p := range w.parts {
		out.Samples += p.counts.Samples
		out.WithUser += p.counts.WithUser
		out.Whole += p.counts.Whole
		out.Lost += p.counts.Lost
		out.Expected += p.counts.Expected
	}
	return out
}

// Profile returns the kept samples as one profile, nil if there are none.
func (w *Window) Profile() (*profile.Profile, error) {
	var all []*profile.Profile
	for _, p := range w.parts {
		if p.Profile != nil {
			all = append(all, p.Profile)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return nil, fmt.Errorf("add up profiles: %w", err)
	}
	merged.TimeNanos = w.parts[0].Begun.UnixNano()
	merged.DurationNanos = int64(w.seconds() * 1e9)
	merged.Comments = all[0].Comments
	done := w.progress()
	pprof.SetLost(merged, done.Expected, done.Lost)
	return merged, nil
}

// interned assigns numbers to values.
type interned[T comparable] struct {
	all     []T
	numbers map[T]int32
}

func newInterned[T comparable]() interned[T] { return interned[T]{numbers: map[T]int32{}} }

func (i *interned[T]) number(of T) int32 {
	n, ok := i.numbers[of]
	if !ok {
		n = int32(len(i.all))
		i.all = append(i.all, of)
		i.numbers[of] = n
	}
	return n
}
