package export

import (
	"cmp"
	"errors"
	"slices"

	"github.com/google/pprof/profile"
)

// errNoTimes is returned by formats that need times.
var errNoTimes = errors.New("the profile has no times of samples: " +
	"record in this format directly, or as pprof with --timestamps")

// maxMoments is the maximum number of moments of samples without times.
const maxMoments = 1 << 24

// moment is a sample at one time.
type moment struct {
	time  int64 // ns since 1970; 0 if unknown
	value int64
	stack []frame
	of    *profile.Sample
}

// track holds the samples of one thread, in order of time.
type track struct {
	thread
	process string // name of the process
	moments []moment
}

// tracks returns the threads of a profile in order of process and thread ID. Stacks are root first, without the
// process. A sample without times has moments with the time 0: as many as samples were taken, or one if that number is
// unknown or too large. The moments of a sample share its value.
func (s *stacks) tracks() []*track {
	byThread := map[thread]*track{}
	all, known := s.samples()
	each := known && all <= maxMoments
	for _, sample := range s.profile.Sample {
		id, ok := threadOf(sample)
		stack := s.codeFrames(sample)
		process := ""
		if stack[0].binary == "" && len(stack) > 1 {
			process, stack = stack[0].name, stack[1:]
		}
		if !ok {
			id.name = process
		}
		t := byThread[id]
		if t == nil {
			t = &track{thread: id, process: process}
			byThread[id] = t
		}
		count := int64(1)
		if each {
			count, _ = s.count(sample)
		}
		t.addMoment(moment{value: s.valueOf(sample), stack: stack, of: sample}, max(1, count))
	}
	var out []*track
	for _, t := range byThread {
		slices.SortStableFunc(t.moments, func(a, b moment) int { return cmp.Compare(a.time, b.time) })
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *track) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid), cmp.Compare(a.name, b.name))
	})
	return out
}

// addMoment adds a moment for each time of its sample, or count moments if the sample has no times.
func (t *track) addMoment(m moment, count int64) {
	all := times(m.of)
	if len(all) == 0 {
		all = make([]int64, count)
	}
	each, left := m.value/int64(len(all)), m.value%int64(len(all))
	for i, at := range all {
		m.time, m.value = at, each
		if int64(i) < left {
			m.value++
		}
		t.moments = append(t.moments, m)
	}
}

// timed returns the tracks and the time of the first sample, or errNoTimes if samples have no times.
func (s *stacks) timed() (all []*track, first int64, err error) {
	all = s.tracks()
	for _, t := range all {
		begin := t.moments[0].time // every track has a moment, and they are sorted by time
		if begin == 0 {
			return nil, 0, errNoTimes
		}
		if first == 0 || begin < first {
			first = begin
		}
	}
	return all, first, nil
}
