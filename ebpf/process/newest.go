package process

import (
	"cmp"
	"container/heap"
	"slices"
)

// newest returns what is left of mappings, which are in order of time, when each has replaced
// what was in its range: sorted, and not overlapping. Those read from /proc and reported,
// too, come twice; a hostile process maps one place again and again. dropped gets what lost
// its place, and kept what is there once more because it was split. It takes n log n steps.
func (ms mappings) newest(kept, dropped func(*Executable)) mappings {
	if sorted := slices.Clone(ms); sorted.disjoint() {
		return sorted
	}
	s := sweep{ms: ms, pieces: make([]int, len(ms))}
	for i := range ms {
		s.waiting = append(s.waiting, i)
	}
	slices.SortFunc(s.waiting, func(a, b int) int { return cmp.Compare(ms[a].start, ms[b].start) })
	s.run()
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

// sweep goes over mappings by address. At each the newest of those that are open is there.
type sweep struct {
	ms      mappings
	waiting []int // that begin further on, sorted by start
	open    newestFirst
	out     mappings
	last    int   // the mapping that out ends with
	pieces  []int // in out, of each mapping
}

func (s *sweep) run() {
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
		s.add(top, at, end)
		at = max(at, end)
	}
}

// add puts a part of a mapping behind what is there.
func (s *sweep) add(i int, start, end uint64) {
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
