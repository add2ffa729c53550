package merge

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Libraries such as greenlet switch a thread to another stack, which starts in the library's code. Native frames beyond
// that start are left over from other stacks: they are no callers of the running functions. The chain shows where the
// stack starts, since the chain also ends there: at the first code of the library beyond the native frames that run the
// chain.

// switchLibraries remembers which executables are such libraries.
type switchLibraries struct {
	of map[unwind.ExeID]language.Switch
}

// maxSwitchLibraries bounds the number of executables that are remembered.
const maxSwitchLibraries = 1 << 12

// switchKind returns the effect that the code of a frame may have on the chain.
func (l *switchLibraries) switchKind(
	pathOf func(unwind.ExeID) string, by *engine.ProcessRuntime, f *kernel.Frame,
) language.Switch {
	if f.Exe == 0 || f.Exe == by.File {
		return language.NoSwitch
	}
	kind, ok := l.of[f.Exe]
	if !ok {
		if l.of == nil || len(l.of) >= maxSwitchLibraries {
			l.of = map[unwind.ExeID]language.Switch{}
		}
		kind = by.Switches(pathOf(f.Exe))
		l.of[f.Exe] = kind
	}
	return kind
}

// switchGroup is a run of adjacent frames of such a library on a stack.
type switchGroup struct {
	kind        language.Switch
	first, end  int // frames, leaf first
	evaluations int // number of frames before the group that run functions
}

// switchGroups returns the groups of a stack, leaf first.
func (x *Merger) switchGroups(by *engine.ProcessRuntime, s *kernel.Sample) []switchGroup {
	x.groups = x.groups[:0]
	evaluations := 0
	for at := range s.User {
		f := &s.User[at]
		if kind := x.libraries.switchKind(x.PathOf, by, f); kind != language.NoSwitch {
			if last := len(x.groups) - 1; last >= 0 && x.groups[last].end == at && x.groups[last].kind == kind {
				x.groups[last].end++
			} else {
				x.groups = append(x.groups, switchGroup{kind, at, at + 1, evaluations})
			}
		} else if by.RunsFunctions(f.Exe, f.Lookup()) {
			evaluations++
		}
	}
	return x.groups
}

// switching is the number of frames at the leaf, of a library that starts stacks, from which on it is about to switch.
const switching = 2

// place places the chain of a sample, whose frames are x.shape, among its native frames. It ends the stack at the
// library code where the stack starts, and returns false if the place of the chain is uncertain.
func (x *Merger) place(by *engine.ProcessRuntime, s *kernel.Sample) ([]chain.Placed, bool) {
	first := s.Chain.End == language.ChainFirstState // the thread may run another state, and has given up its lock
	whole := (first || s.Chain.End == language.ChainWhole) && len(x.shape) > 0
	groups := x.switchGroups(by, s)
	for _, g := range groups {
		if !whole || g.evaluations == 0 {
			continue
		}
		if first && g.kind == language.ToState {
			return nil, false
		}
		placed, ok := chain.Place(x.shape, true, x.native(by, s.User[:g.first], true))
		if !ok {
			continue
		}
		if g.kind == language.ToStack {
			s.User, s.Outcome = s.User[:g.first+1], unwind.Complete
		} // else the frames beyond run functions of another chain
		return placed, true
	}
	placed, ok := chain.Place(x.shape, whole, x.native(by, s.User, s.Outcome.Complete()))
	for _, g := range groups {
		inside := g.evaluations > 0 && !(ok && whole)
		if g.kind == language.ToStack && (inside || g.evaluations == 0 && (g.end-g.first >= switching || len(x.shape) == 0)) {
			s.EndElsewhere(g.first + 1)
			return nil, false
		}
	}
	return placed, ok
}
