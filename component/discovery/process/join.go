package process

import (
	"maps"
	"strings"

	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/ebpf/process/target"
)

// joinContainers merges processes with the targets of their containers, whose labels take precedence. The result also
// contains the containers' targets, for processes that start before the next refresh; pyroscope.ebpf prefers a
// process's own target. Targets without a container ID are passed on unchanged.
func joinContainers(processes, containers []discovery.Target) []discovery.Target {
	joined := make([]discovery.Target, 0, len(processes)+len(containers))
	byID := make(map[string]discovery.Target, len(containers))
	for _, c := range containers {
		if id, _ := target.ContainerID(c); id != "" {
			byID[id] = c
		} else {
			joined = append(joined, c)
		}
	}
	for _, p := range processes {
		joined = append(joined, withContainer(p, byID))
	}
	for _, c := range containers {
		if id, _ := target.ContainerID(c); id != "" && sameTarget(byID[id], c) {
			joined = append(joined, c)
			delete(byID, id) // add equal targets only once
		}
	}
	return joined
}

// withContainer returns a process with the labels of its innermost container that is in byID.
func withContainer(p discovery.Target, byID map[string]discovery.Target) discovery.Target {
	for _, id := range append([]string{p[target.LabelContainerID]}, strings.Split(p[labelOuterContainers], ",")...) {
		if c, found := byID[id]; found {
			p = maps.Clone(p)
			maps.Copy(p, c)
			return p
		}
	}
	return p
}

// sameTarget reports whether two targets have equal labels.
func sameTarget(a, b discovery.Target) bool { return a != nil && maps.Equal(a, b) }
