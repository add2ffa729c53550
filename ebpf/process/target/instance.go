package target

import (
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// LabelProcessInstance is the label with the process that a target's PID means, and with the maximum time for which the
// component that made the target does not know a new process; see InstanceOf.
const LabelProcessInstance = "__process_instance__"

// InstanceOf returns the value of LabelProcessInstance for a process that a component has discovered. The component's
// list is at most refresh old.
func InstanceOf(i procfs.Instance, refresh time.Duration) string {
	return i.String() + "/" + refresh.String()
}

// patience is the maximum delay of a component's targets after they are due.
const patience = 5 * time.Second

// instance is the process that a target's PID means.
type instance struct {
	procfs.Instance               // Start is 0 for any process
	refresh         time.Duration // how long a new process may be unknown; 0 for a target that a user wrote
	gone            bool          // no process had the PID
}

// parseInstance parses a value of LabelProcessInstance.
func parseInstance(text string) (i instance) {
	process, refresh, _ := strings.Cut(text, "/")
	parsed, ok := procfs.ParseInstance(process)
	every, err := time.ParseDuration(refresh)
	if !ok || err != nil {
		return instance{}
	}
	return instance{Instance: parsed, refresh: every}
}

// bindProcess binds a target without LabelProcessInstance to the process that has its PID now, whatever program it
// executes. If the target already existed as old, it keeps its process.
func (t *Target) bindProcess(fs Reader, old *Target) {
	if t.process.Start != 0 || fs == nil {
		return
	}
	if old != nil && old.process.refresh == 0 && old.fingerprint == t.fingerprint {
		t.process = old.process
		return
	}
	now, err := fs.Instance(t.pid)
	if t.process.gone = procfs.Gone(err); err == nil {
		t.process.Start = now.Start
	}
}

// names reports whether the target applies to the process of answer a, which has the target's PID.
func (t *Target) names(a *answer) bool {
	switch {
	case t.process.gone:
		return false
	case t.process.Start == 0:
		return true
	case a.instance.Start != 0:
		return t.process.Is(a.instance)
	}
	// The process ended before it was examined. If its fork was seen, the target means an earlier process. If an exec
	// was seen, a discovered target means an earlier program; a user's target applies anyway.
	return !a.forked && !(a.executed && t.process.refresh != 0)
}

// ofParent returns the target that a process inherits from its parent, or nil. The inheritance ends when the component
// that discovered the parent has had time to discover the process itself.
func (v *view) ofParent(a *answer) *Target {
	t := a.inherited
	if t == nil || time.Since(a.since) > t.process.refresh+patience {
		return nil
	}
	if now := v.byPID[t.pid]; now != nil && now.process.Instance == t.process.Instance {
		return now
	}
	return t
}

// maxAncestors is the maximum number of ancestors that are checked.
const maxAncestors = 8

// ancestorOf returns the discovered target of the nearest ancestor with one, or nil. The ancestor and all processes in
// between must run the same program as the process: then the process is a forked copy of the ancestor.
func (v *view) ancestorOf(i procfs.Instance) *Target {
	if !v.found || i.Program == 0 {
		return nil
	}
	for n := 0; n < maxAncestors && i.Parent != 0; n++ {
		pid := i.Parent
		above, err := v.fs.Instance(pid)
		if err != nil || above.Program != i.Program {
			return nil
		}
		if t := v.byPID[pid]; t != nil && t.process.refresh != 0 && t.process.Is(above) {
			return t
		}
		i = above
	}
	return nil
}
