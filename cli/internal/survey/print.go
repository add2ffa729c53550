package survey

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/flame/printable"
)

// Print shows the target of each process, or why it has none. With all, it also shows processes that are in no
// container and match no target.
func (s *Survey) Print(w io.Writer, all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.waiting)) {
		fmt.Fprintf(w, "%s has found no targets yet%s\n", id, troubleOf(s.waiting[id]))
	}
	if len(s.profilers) == 0 {
		_, err := fmt.Fprintln(w, "no pyroscope.ebpf in this configuration")
		return err
	}
	drops := s.drops()
	for _, id := range slices.Sorted(maps.Keys(s.profilers)) {
		if err := printProfiler(w, id, s.profilers[id], drops, all); err != nil {
			return err
		}
	}
	return nil
}

// troubleOf returns the health message of an unhealthy component.
func troubleOf(c component.Component) string {
	if h, ok := c.(component.HealthComponent); ok {
		if health := h.CurrentHealth(); health.Health == component.HealthTypeUnhealthy {
			return ": " + health.Message
		}
	}
	return ""
}

// drops maps the PID or container ID of a dropped target to the rule that dropped it.
func (s *Survey) drops() map[string]string {
	drops := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(s.relabels)) {
		for _, d := range s.relabels[id].Dropped() {
			why := fmt.Sprintf("dropped by rule %d of %s (%s)", d.Rule, id, d.Text)
			if pid := d.Labels[target.LabelProcessPID]; pid != "" {
				drops[pid] = why
			} else if containerID, _ := target.ContainerID(d.Labels); containerID != "" {
				drops[containerID] = why
			}
		}
	}
	return drops
}

func printProfiler(w io.Writer, id string, settings ebpf.Settings, drops map[string]string, all bool) error {
	processes, err := settings.ProcessTargets()
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	finder := target.NewFinder(target.Options{Targets: settings.Targets})
	counts := finder.Counts()
	fmt.Fprintf(w, "%s: %d targets: %d by container, %d by process, %d with neither", id,
		len(settings.Targets), counts.Containers, counts.Processes, counts.Ignored)
	if !settings.TargetsOnly {
		fmt.Fprint(w, "; all other processes have the default target")
	}
	fmt.Fprintln(w)

	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PID\tNAME\tCONTAINER\tTARGET OR REASON")
	used := map[string]bool{}
	matched, hidden := 0, 0
	for _, p := range processes {
		if p.MatchedBy != "" {
			matched++
			used[p.Target.String()] = true
		} else if p.ContainerID == "" && drops[fmt.Sprint(p.PID)] == "" && !all {
			hidden++
			continue
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", p.PID, printable.Text(p.Name), shortID(p.ContainerID), explain(p, drops))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if hidden > 0 {
		fmt.Fprintf(w, "%d more processes in no container and without a target (--all lists them)\n", hidden)
	}
	for _, t := range finder.Targets() {
		if !used[t.String()] {
			fmt.Fprintf(w, "no running process for %s\n", t)
		}
	}
	if matched == 0 && counts.Containers+counts.Processes > 0 {
		fmt.Fprintln(w, "NO PROCESS MATCHES A TARGET")
	}
	return nil
}

// explain returns the target of a process and the label by which it matches, or why there is none.
func explain(p ebpf.ProcessTarget, drops map[string]string) string {
	if p.MatchedBy != "" {
		return fmt.Sprintf("%s by %s", p.Target, p.MatchedBy)
	}
	for _, key := range []string{fmt.Sprint(p.PID), p.ContainerID} {
		if why := drops[key]; key != "" && why != "" {
			if p.Target != nil {
				why += ": default target"
			}
			return why
		}
	}
	return p.Reason
}

// shortID shortens a container ID to the length that Docker shows.
func shortID(id string) string {
	if id == "" {
		return "-"
	}
	return id[:min(len(id), 12)]
}
