package target

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// DefaultCacheSize is the default number of remembered processes.
const DefaultCacheSize = 1024

// Reader reads the data that identifies a process; procfs.FS implements it.
type Reader interface {
	// Cgroup returns the lines of /proc/PID/cgroup.
	Cgroup(pid uint32) ([]string, error)
	// Instance returns the process that has the PID now.
	Instance(pid uint32) (procfs.Instance, error)
}

// Options configure a Finder.
type Options struct {
	Targets     []map[string]string // as a discovery component exports them
	Default     map[string]string   // labels of processes that match none of Targets
	TargetsOnly bool                // processes that match none of Targets have no target
	CacheSize   int                 // maximum number of remembered processes; DefaultCacheSize if not above 0
	FS          Reader              // if nil, no process is in a container, and PIDs are never reused
}

// Finder finds the target of a process. It is safe for concurrent use.
type Finder struct {
	view  atomic.Pointer[view]
	cache atomic.Pointer[cache]
}

// view is one state of the options. A remembered answer is valid only for the view that it was made with.
type view struct {
	*table
	fs Reader
}

// table holds the targets by PID and by container ID.
type table struct {
	byPID       map[uint32]*Target
	byContainer map[string]*Target
	found       bool    // byPID has discovered targets; components do not know new processes yet
	fallback    *Target // nil if other processes are not profiled
	ignored     int     // discovery targets that name neither process nor container
}

// NewFinder returns a Finder over opts.
func NewFinder(opts Options) *Finder {
	f := &Finder{}
	f.Update(opts)
	return f
}

// Update applies opts to every Find that starts after Update returns, and does not block a Find in progress. Processes
// in known containers keep their containers; all other processes are looked up again. A target with a PID applies to
// the process that has the PID now, not to later processes with that PID. Update must not be called concurrently with
// itself.
func (f *Finder) Update(opts Options) {
	size := opts.CacheSize
	if size <= 0 {
		size = DefaultCacheSize
	}
	if c := f.cache.Load(); c == nil || c.size != size {
		f.cache.Store(newCache(size))
	}
	var old *table
	if v := f.view.Load(); v != nil {
		old = v.table
	}
	f.view.Store(&view{table: newTable(opts, old), fs: opts.FS})
}

// newTable returns the targets of options. old is the table before, or nil.
func newTable(opts Options, old *table) *table {
	t := &table{byPID: map[uint32]*Target{}, byContainer: map[string]*Target{}}
	for _, discovered := range opts.Targets {
		switch found := newTarget(discovered); {
		case found == nil:
			t.ignored++
		case found.pid != 0:
			t.byPID[found.pid] = found
		default:
			t.byContainer[found.containerID] = found
		}
	}
	for pid, found := range t.byPID {
		var before *Target
		if old != nil {
			before = old.byPID[pid]
		}
		found.bindProcess(opts.FS, before)
		t.found = t.found || found.process.refresh != 0
	}
	if !opts.TargetsOnly {
		t.fallback = newDefaultTarget(opts.Default)
	}
	return t
}

// Retry makes the next Find of every process without a known container read its cgroup again. A container runtime moves
// a process into its cgroup after the process has started to run, so call Retry periodically, such as once per
// collection.
func (f *Finder) Retry() {
	current := f.view.Load()
	again := *current
	f.view.CompareAndSwap(current, &again) // if it fails, an Update has replaced the view, with the same effect
}

// Forget drops the data of a process that has exited.
func (f *Finder) Forget(pid uint32) { f.cache.Load().remove(pid) }

// Inherit copies the data of a parent, whose cgroup a new process shares, to the new process. Many processes end before
// their own cgroup could be read. The child keeps the discovered target of its parent until the component has had time
// to discover the child, or until the child executes another program. Earlier data for the child's PID is dropped: it
// is about a process that has ended.
func (f *Finder) Inherit(parent, child uint32) {
	v := f.view.Load()
	if v.isEmpty() {
		return
	}
	known := f.cache.Load().getAnswer(parent)
	if known == nil || known.view != v {
		known = f.lookup(v, parent, known)
	}
	fresh := &answer{
		view: v, containers: known.containers, forked: true, inherited: v.ofParent(known), since: time.Now(),
	}
	fresh.instance.Program = known.instance.Program
	if t := v.byPID[parent]; t != nil && t == known.target && t.process.refresh != 0 {
		fresh.inherited = t
	}
	switch {
	case v.byPID[child] == nil && fresh.inherited == nil && len(v.byContainer) == 0:
		f.cache.Load().remove(child)
		return // it has the default target
	case v.byPID[child] != nil:
		if now, alive := v.instance(child); alive {
			fresh.instance = now
		}
	}
	fresh.target = v.targetOf(child, fresh)
	f.cache.Load().putAnswer(child, fresh)
}

// Restarted records that a process has executed another program: discovered labels are about the program before. The
// cgroup is read again, because container runtimes, also inside a container, move a process into its container just
// before the exec.
func (f *Finder) Restarted(pid uint32) {
	known := f.cache.Load().getAnswer(pid)
	if known == nil && f.view.Load().byPID[pid] == nil {
		return // no data about the program before
	}
	fresh := answer{}
	if known != nil {
		fresh = *known
	}
	fresh.view, fresh.executed, fresh.inherited, fresh.instance.Program = nil, true, nil, 0
	f.cache.Load().putAnswer(pid, &fresh)
}

// isEmpty reports whether all processes have the default target.
func (v *view) isEmpty() bool { return len(v.byPID) == 0 && len(v.byContainer) == 0 }

// Find returns the target of a process, or nil if the process is not profiled. The first call for a process reads its
// start time and its cgroup; later calls do not allocate, and wait only for writers of the cache.
func (f *Finder) Find(pid uint32) *Target {
	v := f.view.Load()
	if v.isEmpty() {
		return v.fallback
	}
	known := f.cache.Load().getAnswer(pid)
	if known != nil && known.view == v {
		return known.target
	}
	return f.lookup(v, pid, known).target
}

// lookup reads the identity of the process and its container, if they are not known yet, and remembers its target under
// v.
func (f *Finder) lookup(v *view, pid uint32, known *answer) *answer {
	fresh := v.lookUp(pid, known)
	f.cache.Load().putAnswer(pid, fresh)
	return fresh
}

// lookUp is lookup without remembering the result. known is the earlier data of the PID.
func (v *view) lookUp(pid uint32, known *answer) *answer {
	fresh := &answer{}
	now, alive := v.instance(pid)
	if known != nil && !(alive && known.instance.Start != 0 && known.instance.Start != now.Start) {
		*fresh = *known
	}
	fresh.view = v
	if alive {
		if before := fresh.instance.Program; before != 0 && now.Program != 0 && now.Program != before {
			fresh.inherited, fresh.executed = nil, true
		}
		fresh.instance = now
	}
	restarted := known != nil && known.view == nil
	if (len(fresh.containers) == 0 || restarted) && len(v.byContainer) > 0 {
		if ids := v.containersOf(pid); len(ids) > 0 {
			fresh.containers = ids
		}
	}
	if !fresh.forked && !fresh.executed && fresh.inherited == nil && alive && v.byPID[pid] == nil {
		fresh.inherited, fresh.since = v.ancestorOf(now), time.Now().Add(-now.Age())
	}
	fresh.target = v.targetOf(pid, fresh)
	return fresh
}

// instance returns the process that has a PID now; ok is false if it cannot be read.
func (v *view) instance(pid uint32) (i procfs.Instance, ok bool) {
	if v.fs == nil {
		return i, false
	}
	i, err := v.fs.Instance(pid)
	return i, err == nil
}

// targetOf returns the target of a process with data a.
func (v *view) targetOf(pid uint32, a *answer) *Target {
	if t := v.byPID[pid]; t != nil && t.names(a) {
		return t
	}
	if t := v.ofParent(a); t != nil {
		return t
	}
	if t := v.ofContainers(a.containers); t != nil {
		return t
	}
	return v.fallback
}

// containersOf returns the containers of a process, the innermost first. If the cgroup cannot be read, the process is
// usually gone.
func (v *view) containersOf(pid uint32) []string {
	if v.fs == nil {
		return nil
	}
	lines, err := v.fs.Cgroup(pid)
	if err != nil {
		return nil
	}
	return ContainerIDsFromCgroup(lines)
}

// ofContainers returns the target of the innermost container that has one, or nil.
func (v *view) ofContainers(ids []string) *Target {
	for _, id := range ids {
		if t := v.byContainer[id]; t != nil {
			return t
		}
	}
	return nil
}

// Counts is the number of targets of a Finder, by what identifies them.
type Counts struct {
	Processes  int // identified by PID
	Containers int // identified by container ID
	Ignored    int // discovery targets that name neither
}

// Counts returns the number of current targets. If several targets name the same process or container, the last one is
// used.
func (f *Finder) Counts() Counts {
	v := f.view.Load()
	return Counts{Processes: len(v.byPID), Containers: len(v.byContainer), Ignored: v.ignored}
}

// Processes returns the PIDs that identify targets. It returns nil if targets may apply to other processes: if
// containers identify targets, or if new processes inherit targets.
func (f *Finder) Processes() map[uint32]bool {
	v := f.view.Load()
	if len(v.byContainer) > 0 || v.found {
		return nil
	}
	pids := make(map[uint32]bool, len(v.byPID))
	for pid := range v.byPID {
		pids[pid] = true
	}
	return pids
}

// Targets returns the current targets without the default target, sorted by their String.
func (f *Finder) Targets() []*Target {
	v := f.view.Load()
	all := make([]*Target, 0, len(v.byPID)+len(v.byContainer))
	for _, t := range v.byPID {
		all = append(all, t)
	}
	for _, t := range v.byContainer {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Target) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// Explanation is the reason for the target of a process.
type Explanation struct {
	PID         uint32
	ContainerID string  // the innermost in its cgroup; "" if it has none, or the cgroup is not readable
	Target      *Target // nil: not profiled
	MatchedBy   string  // the label of Target that names the process or its container; "" if none does
	Reason      string  // one sentence for people
}

// Explain looks up a process without the cache, and returns how its target was found, or why it has none.
func (f *Finder) Explain(pid uint32) Explanation {
	v := f.view.Load()
	e := Explanation{PID: pid}
	var lines []string
	var err error
	if v.fs != nil {
		lines, err = v.fs.Cgroup(pid)
	}
	e.ContainerID = ContainerIDFromCgroup(lines)
	a := v.lookUp(pid, nil)
	if t := v.byPID[pid]; t != nil && t.names(a) {
		e.Target, e.MatchedBy = t, t.matchedBy
		e.Reason = fmt.Sprintf("%s is %d", LabelProcessPID, pid)
		return e
	}
	if t := v.ofParent(a); t != nil {
		e.Target, e.MatchedBy = t, t.matchedBy
		e.Reason = fmt.Sprintf("new child of process %d", t.pid)
		return e
	}
	if t := v.ofContainers(ContainerIDsFromCgroup(lines)); t != nil {
		e.Target, e.MatchedBy = t, t.matchedBy
		e.Reason = fmt.Sprintf("%s names its container", t.matchedBy)
		if t.containerID != e.ContainerID {
			e.Reason = fmt.Sprintf("%s names its outer container %.12s", t.matchedBy, t.containerID)
		}
		return e
	}
	switch {
	case v.byPID[pid] != nil:
		e.Reason = fmt.Sprintf("%s %d names another process, or an earlier program of this process",
			LabelProcessPID, pid)
	case err != nil:
		e.Reason = fmt.Sprintf("its cgroup cannot be read: %v", err)
	case e.ContainerID == "":
		e.Reason = "no container ID in its cgroup" + shownCgroup(lines)
	default:
		e.Reason = "no target names its container"
	}
	if e.Target = v.fallback; e.Target != nil {
		e.Reason += ": default target"
	} else {
		e.Reason += ": not profiled (targets_only)"
	}
	return e
}

// shownCgroup returns the longest path of a cgroup, which is the most useful one to show.
func shownCgroup(lines []string) string {
	longest := ""
	for _, line := range lines {
		if path, ok := pathOf(line); ok && len(path) > len(longest) {
			longest = path
		}
	}
	if longest == "" {
		return ""
	}
	return " " + longest
}

// MatchesAny reports whether one of the processes has a target other than the default target.
func (f *Finder) MatchesAny(pids []uint32) bool {
	return slices.ContainsFunc(pids, func(pid uint32) bool { return f.Explain(pid).MatchedBy != "" })
}
