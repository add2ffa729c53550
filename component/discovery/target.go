// Package discovery holds the shared parts of the discovery.* components: targets, and a component that wraps one of
// Prometheus' discoverers.
package discovery

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/discovery/targetgroup"
)

// Target is a target that a component has found: a set of labels. Labels with the prefix "__" are internal.
type Target map[string]string

// Exports are the values of a discovery component that other components can refer to.
type Exports struct {
	Targets []Target `river:"targets,attr"`
}

// groups maps each source to its newest target group.
type groups map[string]*targetgroup.Group

// addGroups replaces the groups of the same sources with newer groups.
func (g groups) addGroups(newer []*targetgroup.Group) {
	for _, group := range newer {
		switch {
		case group == nil:
		case len(group.Targets) == 0:
			delete(g, group.Source)
		default:
			g[group.Source] = group
		}
	}
}

// targets returns the targets of all groups together with their groups' labels, always in the same order, so that equal
// targets compare equal.
func (g groups) targets() []Target {
	targets := []Target{}
	for _, source := range slices.Sorted(maps.Keys(g)) {
		group := g[source]
		first := len(targets)
		for _, labels := range group.Targets {
			target := make(Target, len(group.Labels)+len(labels))
			for name, value := range group.Labels {
				target[string(name)] = string(value)
			}
			for name, value := range labels {
				target[string(name)] = string(value)
			}
			targets = append(targets, target)
		}
		slices.SortStableFunc(targets[first:], compareTargets)
	}
	return targets
}

// compareTargets orders targets by their labels.
func compareTargets(a, b Target) int {
	namesA, namesB := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	for i := range min(len(namesA), len(namesB)) {
		if c := strings.Compare(namesA[i], namesB[i]); c != 0 {
			return c
		}
		if c := strings.Compare(a[namesA[i]], b[namesB[i]]); c != 0 {
			return c
		}
	}
	return len(namesA) - len(namesB)
}
