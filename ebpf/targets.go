package ebpf

import (
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
)

// retryTargetsAfter is how often processes without a target are looked up again: they may have been moved to another
// cgroup.
const retryTargetsAfter = 10 * time.Second

// targets finds the target of a process's samples.
type targets struct {
	finder  *target.Finder
	cgroups *procfs.Cgroups
	retried time.Time // only for retry
}

func newTargets(o Options) *targets {
	cgroups := procfs.Default.Cgroups()
	return &targets{finder: target.NewFinder(finderOptions(o, cgroups)), cgroups: cgroups, retried: time.Now()}
}

func finderOptions(o Options, fs target.Reader) target.Options {
	return target.Options{
		Targets:     o.Targets,
		Default:     o.DefaultTarget,
		TargetsOnly: o.TargetsOnly,
		CacheSize:   o.ContainerIDCacheSize,
		FS:          fs,
	}
}

func (t *targets) update(o Options) { t.finder.Update(finderOptions(o, t.cgroups)) }

// targetOf returns the target of a process, and whether it has one.
func (t *targets) targetOf(pid uint32) (*target.Target, bool) {
	found := t.finder.Find(pid)
	return found, found != nil
}

// observe notes new processes.
func (t *targets) observe(r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordExec:
		t.finder.Restarted(r.PID)
	case kernel.RecordFork:
		t.finder.Inherit(r.Parent, r.PID)
	}
}

// retry has processes without a target looked up again if that is due, and reports whether it was.
func (t *targets) retry() bool {
	if time.Since(t.retried) <= retryTargetsAfter {
		return false
	}
	t.retried = time.Now()
	t.finder.Retry()
	return true
}

func (t *targets) close() error { return t.cgroups.Close() }
