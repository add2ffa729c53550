package digest

import (
	"cmp"
	"slices"

	"github.com/headwater/headwater/flame/export"
)

// maxPath is the maximum number of frames shown of a path.
const maxPath = 12

// step is a frame of a path, with the value of the stacks that share the path up to this frame.
type step struct {
	frame export.Frame
	value int64
}

// hottest returns the common path of lists of frames with values: each step is the next frame with the most value, as
// long as more than half of the previous step's value has it. Direct recursion counts as one step.
func hottest(lists [][]export.Frame, values []int64) (path []step) {
	all := make([]int, len(lists))
	for i := range all {
		all[i] = i
	}
	lists = slices.Clone(lists)
	for len(path) < maxPath {
		next, value := nextFrame(all, lists, values)
		if value == 0 || len(path) > 0 && 2*value <= path[len(path)-1].value {
			break
		}
		var kept []int
		for _, i := range all {
			if len(lists[i]) > 0 && lists[i][0] == next {
				lists[i] = withoutFirst(lists[i])
				kept = append(kept, i)
			}
		}
		all = kept
		path = append(path, step{next, value})
	}
	return path
}

// nextFrame returns the first frame with the most value.
func nextFrame(which []int, lists [][]export.Frame, values []int64) (best export.Frame, most int64) {
	sums := map[export.Frame]int64{}
	for _, i := range which {
		if len(lists[i]) > 0 {
			sums[lists[i][0]] += values[i]
		}
	}
	for f, value := range sums {
		if value > most || value == most && frameLess(f, best) {
			best, most = f, value
		}
	}
	return best, most
}

func frameLess(a, b export.Frame) bool {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Binary, b.Binary)) < 0
}

// withoutFirst removes the first frame and its direct repetitions.
func withoutFirst(frames []export.Frame) []export.Frame {
	first := frames[0]
	for len(frames) > 0 && frames[0] == first {
		frames = frames[1:]
	}
	return frames
}

// callersOf returns the hottest path of callers of a function's own time, starting with the function.
func (d *Digest) callersOf(f export.Frame) []step {
	var lists [][]export.Frame
	var values []int64
	for _, s := range d.stacks {
		if s.Frames[len(s.Frames)-1] == f {
			list := slices.Clone(s.Frames)
			slices.Reverse(list)
			lists, values = append(lists, list), append(values, s.Value)
		}
	}
	return hottest(lists, values)
}
