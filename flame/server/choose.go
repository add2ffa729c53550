package server

import (
	"slices"
	"strconv"

	"github.com/headwater/headwater/flame/export"
)

// maxOptions bounds the options that a field offers.
const maxOptions = 500

// field is a field of the form that selects the contents of a flame graph.
type field struct {
	Name, Text, Value string
	Options           []string
}

// offered holds the choices for the time and kind of a selection: all targets, and the processes of its target.
type offered struct {
	targets   []targetRow
	processes []processRow
}

// offered returns the choices for a selection.
func (p *Page) offered(s selection) offered {
	of := selection{target: s.target, from: s.from, to: s.to, filter: filter{kind: s.kind}}
	whole := of
	whole.target = allTargets
	entries := p.summed(whole)
	return offered{allTargetRows(entries), allProcessRows(of.pickProfiles(entries))}
}

// fields returns the form's fields: the target, the process, and other properties that the profiles distinguish.
func (p *Page) fields(s selection, o offered) []field {
	status := p.options.Status()
	target := field{Name: "target", Text: "Target", Options: []string{allTargets}}
	seen := map[string]bool{}
	for _, row := range o.targets {
		if !seen[row.Name] && len(target.Options) < maxOptions {
			target.Options = append(target.Options, row.Name)
		}
		seen[row.Name] = true
		if row.ID == s.target || serviceID(row.Name) == s.target {
			target.Value = row.Name
		}
	}
	if s.target == allTargets || target.Value == "" {
		target.Value = s.target
	}
	out := []field{target}
	if kinds := kindsOf(p.history.allProfiles(), s.filter); len(kinds) > 1 {
		out = append(out, field{Name: "kind", Text: "Kind", Value: s.kindName(), Options: kinds})
	}
	process, pid := field{Name: "process", Text: "Process", Value: s.comm}, field{Name: "pid", Text: "PID"}
	for _, row := range o.processes {
		if len(process.Options) < maxOptions {
			process.Options = append(process.Options, row.Comm)
		}
		pids, _ := cutList(row.all, maxOptions-len(pid.Options))
		for _, id := range pids {
			pid.Options = append(pid.Options, strconv.FormatUint(uint64(id), 10))
		}
	}
	if s.pid != 0 {
		pid.Value = strconv.FormatUint(uint64(s.pid), 10)
	}
	if status.ByName {
		out = append(out, process)
	}
	if status.ByPID {
		out = append(out, pid)
	}
	return append(out, status.moreFields(s)...)
}

// kindsOf returns the kinds of the profiles and the chosen kind, cpu first.
func kindsOf(entries []*kept, chosen filter) []string {
	out := []string{kindCPU}
	add := func(kind string) {
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	add(chosen.kindName())
	for _, k := range entries {
		add(k.kindName())
	}
	slices.Sort(out[1:])
	return out
}

// moreFields returns the fields without a list of options.
func (s Status) moreFields(chosen selection) (out []field) {
	for _, label := range s.SampleLabels {
		if label == "thread_name" || label == "thread_id" {
			out = append(out, field{Name: "thread", Text: "Thread", Value: chosen.thread})
			break
		}
	}
	return append(out, field{Name: "focus", Text: "Only stacks with (regular expression)", Value: chosen.focus},
		field{Name: "ignore", Text: "Without stacks with", Value: chosen.ignore})
}

// exportLink is a link to the selection in an export format.
type exportLink struct{ Name, Link string }

// exportLinks returns links for all formats that do not need the times of samples.
func exportLinks(s selection) (out []exportLink) {
	v := s.values()
	for _, f := range export.Formats() {
		if f.Name == "trace" || f.Name == "perf" { // they need the times
			continue
		}
		v.Set("format", f.Name)
		out = append(out, exportLink{f.Name, "./profile?" + v.Encode()})
	}
	return out
}

// rangeLink is a link to the newest profiles of a selection.
type rangeLink struct{ Text, Link string }

// rangeLinks returns links for all ranges. It returns none for a build that has ended: it has no newest profiles.
func rangeLinks(s selection, onDisk bool) (out []rangeLink) {
	if s.build != "" {
		return nil
	}
	v := s.values()
	v.Del("from")
	v.Del("to")
	for _, r := range offeredRanges(onDisk, timeRange{}) {
		v.Set("range", r.Value)
		out = append(out, rangeLink{r.Text, "./open?" + v.Encode()})
	}
	return out
}

// seriesLink returns the link to a selection's timeline, without a time range.
func seriesLink(s selection) string {
	v := s.values()
	v.Del("from")
	v.Del("to")
	return "./api/series?" + v.Encode()
}
