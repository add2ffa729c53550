package flamegraph

import (
	"maps"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf"
)

// Status is the profiler's condition, for the overview.
type Status struct {
	Healthy bool
	Message string // one sentence; the reason if not healthy

	SampleRate int           // samples per second and CPU
	Interval   time.Duration // between two rounds of collecting

	Targets     int // usable targets in the configuration
	TargetsOnly bool
	Stats       ebpf.Stats // of the profiler, since its start

	ByName, ByPID bool     // whether a profile's samples have their process's name and ID
	SampleLabels  []string // labels that samples carry
}

// shownIncomplete is the number of binaries with incomplete stacks on the page.
const shownIncomplete = 15

// Incomplete returns the binaries in which stacks ended early, most samples first.
func (s Status) Incomplete() []ebpf.BinaryStats {
	return s.Stats.Binaries[:min(len(s.Stats.Binaries), shownIncomplete)]
}

// total is the sum of counts.
func total(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// outcomeRow is an outcome in the overview.
type outcomeRow struct {
	Name, Text string
	Samples    uint64
	Share      float64 // of all samples, 0 to 1
	Good       bool    // the stack is complete, or there is no stack to unwind
}

// outcomeRows returns the outcomes that occurred, most samples first.
func outcomeRows(outcomes map[string]uint64) []outcomeRow {
	sum := total(outcomes)
	var rows []outcomeRow
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		if n := outcomes[name]; n > 0 {
			text, good := outcomeText(name)
			rows = append(rows, outcomeRow{name, text, n, share(n, sum), good})
		}
	}
	slices.SortStableFunc(rows, func(a, b outcomeRow) int { return compareDown(a.Samples, b.Samples) })
	return rows
}

// outcomeText explains an outcome.
func outcomeText(name string) (text string, good bool) {
	switch name {
	case "complete":
		return "The whole stack, down to the outermost frame.", true
	case "complete_fp":
		return "The whole stack; the last part by frame pointers.", true
	case "kernel_thread":
		return "A thread of the kernel: there is no user stack.", true
	case "not_collected":
		return "User stacks are turned off.", true
	case "no_mapping":
		return "An address outside every executable file, such as JIT code.", false
	case "process_unknown":
		return "The process was not known yet, or has ended.", false
	case "records_lost":
		return "The profiler had no CPU for seconds, or the kernel's buffer for records of processes was full.", false
	case "replaced":
		return "The unwind rules belonged to a program or library that another one had replaced.", false
	case "guessed":
		return "Some caller was found only by the frame pointer, in code that may not keep a frame pointer.", false
	case "switched":
		return "The thread was switching stacks, or its callers were frozen in a heap.", false
	case "moved":
		return "The thread ran while its stack was read.", false
	case "page_missing":
		return "The unwind rules of this code were not loaded yet.", false
	case "no_row":
		return "The file has no unwind rule for this code.", false
	case "unsupported_rule":
		return "The unwinder does not support this kind of unwind rule.", false
	case "unreadable_stack":
		return "The stack could not be read, for example because it was swapped out.", false
	case "no_progress":
		return "The unwind rule is wrong: it led down the stack.", false
	case "no_call":
		return "The file has no unwind rule for this code, and no call precedes the return address found.", false
	case "depth_limit":
		return "The stack is deeper than the limit.", false
	case "task_32bit":
		return "A 32-bit program, whose stack was not copied.", false
	case "no_user_registers":
		return "A kernel worker, or a task inside execve, has no registers of a program.", false
	default:
		return "", false
	}
}

// share returns n/sum, or 0 if sum is 0.
func share(n, sum uint64) float64 {
	if sum == 0 {
		return 0
	}
	return float64(n) / float64(sum)
}

func compareDown(a, b uint64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	default:
		return 0
	}
}
