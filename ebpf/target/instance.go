package target

import (
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

// LabelProcessInstance says which process a target means by its PID, and for how long at most a new process is unknown
// to who made the target; see InstanceOf.
const LabelProcessInstance = "__process_instance__"

// InstanceOf returns the value of LabelProcessInstance: the process that a component has found, whose list is at most
// refresh old.
func InstanceOf(i procfs.Instance, refresh time.Duration) string {
	return i.String() + "/" + refresh.String()
}

// patience is how much later than a component is due its targets may be here.
const patience = 5 * time.Second

// instance is the process that a target means by its PID.
type instance struct {
	procfs.Instance               // Start 0: any process
	refresh         time.Duration // a new process is unknown for that long; 0: a user has named this one alone
	gone            bool          // there was no process of that PID
}

// parseInstance reads a value of LabelProcessInstance.
func parseInstance(text string) (i instance) {
	process, refresh, _ := strings.Cut(text, "/")
	parsed, ok := procfs.ParseInstance(process)
	every, err := time.ParseDuration(refresh)
	if !ok || err != nil {
		return instance{}
	}
	return instance{Instance: parsed, refresh: every}
}

// bind has a target without LabelProcessInstance mean the process that has its PID now, whatever it executes. One that
// was there before, as old says, goes on to mean the same process.
func (t *Target) bind(fs Reader, old *Target) {
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

// names reports whether the target is that of a process with its PID.
func (t *Target) names(a *answer) bool {
	switch {
	case t.process.gone:
		return false
	case t.process.Start == 0:
		return true
	case a.instance.Start != 0:
		return t.process.Is(a.instance)
	}
	// It has ended before anybody looked. Until it forked it was another process, and another program until it executed
	// one, which a target that a user wrote does not mind.
	return !a.forked && !(a.executed && t.process.refresh != 0)
}

// ofParent returns the target that a process has by its parent's, nil if it has none. It ends when the component that
// found the parent must know the process, too, and has no target for it.
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

// maxAncestors is how many processes above one are looked at.
const maxAncestors = 8

// ancestorOf returns the target of the process above one that runs the same program, which it has begun as a copy of;
// nil if there is none that a component has found.
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
