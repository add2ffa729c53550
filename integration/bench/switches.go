package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// What threads do that do nothing but wait for each other. They stay on their CPU: how often a turn goes to another one
// differs from run to run by far more than a profiler costs.
const (
	switchingThreads = 1000    // on each CPU
	switchingTurns   = 400_000 // of all of those together
	switchingKinds   = 3       // of kindSettings: those that look at switches
)

// measureSwitches measures by how much kinds of samples slow down such threads.
func measureSwitches(o options, dir string, save func(any) error) error {
	w, err := newWorkshop(dir, nil)
	if err != nil {
		return err
	}
	waits := filepath.Join(dir, "waits")
	if err := buildWaits(waits); err != nil {
		return err
	}
	b := &bench{options: o, workshop: w, took: map[string]float64{}}
	b.profilers = o.ourKinds()[:switchingKinds]
	b.results = newResults(len(b.profilers))
	identities, err := b.identities()
	if err != nil {
		return err
	}
	progress := func() error { return save(b.report(identities)) }
	ring := fixedWork{"switches", fmt.Sprintf("%d threads in a ring on each CPU", switchingThreads), func() []*exec.Cmd {
		return onEachCPU(func(cpu int) *exec.Cmd {
			return exec.Command("taskset", "-c", fmt.Sprint(cpu),
				waits, "ring", fmt.Sprint(switchingThreads), fmt.Sprint(switchingTurns))
		})
	}}
	err = b.measureSlowdown([]fixedWork{ring}, progress)
	return errors.Join(err, b.report(identities).writeText(os.Stdout))
}
