package ebpf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/process/target"
)

// maxProcesses bounds the processes in the debug info.
const maxProcesses = 500

// ProcessTarget says which target a process has, or why it has none.
type ProcessTarget struct {
	target.Explanation
	Name string // of the process
}

// ProcessTargets says which target each process of this host has, or why it has none. It lists processes that match a
// target first, then processes in containers, then all other processes. It leaves out kernel threads.
func (s Settings) ProcessTargets() ([]ProcessTarget, error) {
	pids, err := procfs.Default.PIDs()
	if err != nil {
		return nil, err
	}
	finder, closeFinder := s.finder()
	defer closeFinder()
	processes := make([]ProcessTarget, 0, len(pids))
	for _, pid := range pids {
		name, err := procfs.Default.Comm(pid)
		if _, exeErr := procfs.Default.ExePath(pid); err != nil || procfs.Gone(exeErr) {
			continue // it has ended, or is a kernel thread
		}
		processes = append(processes,
			ProcessTarget{Explanation: finder.Explain(pid), Name: strings.ToValidUTF8(name, "\uFFFD")})
	}
	slices.SortStableFunc(processes, func(a, b ProcessTarget) int { return cmp.Compare(a.order(), b.order()) })
	return processes, nil
}

func (p ProcessTarget) order() int {
	switch {
	case p.MatchedBy != "":
		return 0
	case p.ContainerID != "":
		return 1
	default:
		return 2
	}
}

// finder returns a new finder for the targets.
func (s Settings) finder() (finder *target.Finder, closeFinder func()) {
	cgroups := procfs.Default.Cgroups()
	finder = target.NewFinder(target.Options{
		Targets: s.Targets, Default: s.DefaultTarget, TargetsOnly: s.TargetsOnly, FS: cgroups,
	})
	return finder, func() { _ = cgroups.Close() }
}

// unmatched returns a sentence if there are targets and no process matches any, else "".
func (s Settings) unmatched() string {
	finder, closeFinder := s.finder()
	defer closeFinder()
	counts := finder.Counts()
	targets := counts.Processes + counts.Containers
	if targets == 0 {
		return ""
	}
	pids, err := procfs.Default.PIDs()
	if err != nil || finder.MatchesAny(pids) {
		return ""
	}
	return plural(targets, "target") +
		", but no running process matches; the debug info and headwater targets list the reason for each process"
}

// DebugProcess is a process and its target.
type DebugProcess struct {
	PID         uint32 `river:"pid,attr"`
	Name        string `river:"name,attr"`
	ContainerID string `river:"container_id,attr,optional"`
	Target      string `river:"target,attr,optional"`     // the label set
	MatchedBy   string `river:"matched_by,attr,optional"` // the label by which the target matches
	Reason      string `river:"reason,attr"`
}

func debugProcesses(args Settings) []DebugProcess {
	if len(args.Targets) == 0 {
		return nil // there are no targets to match
	}
	processes, err := args.ProcessTargets()
	if err != nil {
		return nil // the profiler fails in the same way, and reports it
	}
	shown := make([]DebugProcess, 0, min(len(processes), maxProcesses))
	for _, p := range processes[:min(len(processes), maxProcesses)] {
		d := DebugProcess{PID: p.PID, Name: p.Name, ContainerID: p.ContainerID, MatchedBy: p.MatchedBy, Reason: p.Reason}
		if p.Target != nil {
			d.Target = p.Target.String()
		}
		shown = append(shown, d)
	}
	return shown
}
