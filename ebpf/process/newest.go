package process

import (
	"cmp"
	"container/heap"
	"slices"
)

// newest resolves overlaps among mappings, which are in order of time: each mapping replaces earlier ones in its range.
// The result is sorted and has no overlaps. A mapping that was both reported and read from /proc occurs twice, and a
// hostile process may map one place again and again. newest calls dropped for each mapping that lost its whole range,
// and kept for each further piece of a mapping that was split. It takes O(n log n) time.
func (ms mappings) newest(kept, dropped func(*Executable)) mappings {
	if sorted := slices.Clone(ms); sorted.disjoint() {
		return sorted
	}
	s := sweep{ms: ms, pieces: make([]int, len(ms))}
	for i := range ms {
		s.waiting = append(s.waiting, i)
	}
	slices.SortFunc(s.waiting, func(a, b int) int { return cmp.Compare(ms[a].start, ms[b].start) })
	s.runSweep()
	for i, n := range s.pieces {
		if n == 0 {
			dropped(ms[i].exe)
		}
		for ; n > 1; n-- {
			kept(ms[i].exe)
		}
	}
	return s.out
}

// sweep goes over mappings by address. At each address, the newest open mapping is the valid one.
type sweep struct {
	ms      mappings
	waiting []int // mappings that start further on, sorted by start
	open    newestFirst
	out     mappings
	last    int   // index of the mapping at the end of out
	pieces  []int // number of pieces in out, by mapping
}

func (s *sweep) runSweep() {
	at := uint64(0)
	for {
		for len(s.open) > 0 && s.ms[s.open[0]].end <= at {
			heap.Pop(&s.open)
		}
		if len(s.open) == 0 {
			if len(s.waiting) == 0 {
				return
			}
			at = s.ms[s.waiting[0]].start
		}
		for len(s.waiting) > 0 && s.ms[s.waiting[0]].start <= at {
			heap.Push(&s.open, s.waiting[0])
			s.waiting = s.waiting[1:]
		}
		top := s.open[0]
		end := s.ms[top].end
		if len(s.waiting) > 0 {
			end = min(end, s.ms[s.waiting[0]].start)
		}
		s.addMapping(top, at, end)
		at = max(at, end)
	}
}

// addMapping appends a part of a mapping to out.
func (s *sweep) addMapping(i int, start, end uint64) {
	if start >= end {
		return
	}
	if n := len(s.out) - 1; n >= 0 && s.out[n].end == start && s.last == i {
		s.out[n].end = end
		return
	}
	m := s.ms[i]
	m.start, m.end = start, end
	s.out, s.last = append(s.out, m), i
	s.pieces[i]++
}

// newestFirst are indices of mappings in order of time. It implements heap.Interface.
type newestFirst []int

func (h newestFirst) Len() int           { return len(h) }
func (h newestFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h newestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newestFirst) Push(x any)        { *h = append(*h, x.(int)) }
func (h *newestFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
