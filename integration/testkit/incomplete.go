package testkit

import (
	"slices"
	"strings"
)

// unreadyReasons are the reasons for which a stack is incomplete because the machine was too busy: the profiler had not
// read the process, or its files, when the kernel walked the stack, and the sample came too fast to carry a copy of it.
var unreadyReasons = []string{"process_unknown", "page_missing", "records_lost", "replaced"}

// IncompleteReason returns the reason that a frame gives for an incomplete stack: "no_row" for "[incomplete: no_row
// libc.so.6]". It is "" if the frame gives none.
func IncompleteReason(frame string) string {
	rest, _ := strings.CutPrefix(frame, "[incomplete: ")
	if rest == frame {
		return ""
	}
	reason, _, _ := strings.Cut(strings.TrimSuffix(rest, "]"), " ")
	return reason
}

// IsUnready reports whether a frame says that a stack is incomplete because the profiler had not read the process or
// its files yet. How many such stacks there are depends on how soon the profiler gets a CPU.
func IsUnready(frame string) bool { return slices.Contains(unreadyReasons, IncompleteReason(frame)) }
