package cli

import (
	"errors"
	"fmt"
)

// event is the value of --event: what is sampled. It is CPU time alone.
type event string

// Set implements pflag.Value. Its errors say what there is in place of what was asked for.
func (e *event) Set(text string) error {
	switch text {
	case "cpu", "cpu-clock", "task-clock":
		*e = "cpu"
		return nil
	case "off-cpu", "wall", "offcpu", "lock":
		return errors.New("only CPU time is sampled (cpu); what threads wait for is shown by " +
			"headwater stack PID and headwater top -p PID --by waits")
	case "cycles", "instructions", "cache-misses", "branch-misses", "cpu-cycles":
		return errors.New("hardware counters are not used; cpu samples CPU time by a timer, with and without them alike")
	case "page-faults", "faults", "alloc", "minor-faults", "major-faults", "context-switches", "cs":
		return errors.New("only CPU time is sampled (cpu)")
	}
	return fmt.Errorf("%q is unknown: only CPU time is sampled (cpu)", text)
}

// String implements pflag.Value.
func (e *event) String() string { return string(*e) }

// Type implements pflag.Value.
func (e *event) Type() string { return "event" }
