package export

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// rootsAreProcesses reports whether the outermost frame of each stack is the name of a process, as in Headwater's
// profiles: a name without a binary, an address or a line, in a profile with binaries. A function without a binary,
// such as a function of an interpreter, is the root of only some stacks, or has a line. A profile without any binary,
// such as folded stacks, does not show whether its roots are processes; the result is then false.
func rootsAreProcesses(p *profile.Profile) bool {
	if !slices.ContainsFunc(p.Location, func(l *profile.Location) bool { return !isNoCode(l) }) {
		return false
	}
	roots := 0
	for _, s := range p.Sample {
		if len(s.Location) == 0 {
			continue
		}
		if !isOnlyName(s.Location[len(s.Location)-1]) {
			return false
		}
		roots++
	}
	return roots > 0
}

// isOnlyName reports whether a location has only a name.
func isOnlyName(l *profile.Location) bool {
	if !isNoCode(l) || l.Address != 0 || len(l.Line) != 1 || l.Line[0].Line != 0 || l.Line[0].Function == nil {
		return false
	}
	f := l.Line[0].Function
	return f.Filename == "" && f.Name != unnamed && !strings.HasPrefix(f.Name, incompleteMark) &&
		!strings.HasPrefix(f.Name, guessedMark)
}
