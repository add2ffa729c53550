package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// The work of threads that only wait for each other. They stay on their CPU: how often a turn moves to another CPU
// varies between runs by far more than a profiler costs.
const (
	switchingThreads = 1000    // on each CPU
	switchingTurns   = 400_000 // of all these threads together
	switchingKinds   = 3       // of kindSettings: the kinds that observe switches
)

// measureSwitches measures by how much kinds of samples, and the peer if there is one, slow down such threads.
func measureSwitches(o options, dir string, save func(any) error) error {
	if o.counted {
		return o.measureInMachine(dir, "-switches", true, func(values json.RawMessage) error {
			var found report
			if err := json.Unmarshal(values, &found); err != nil {
				return err
			}
			return errors.Join(save(found), found.writeText(os.Stdout))
		})
	}
	waits := o.waits
	if waits == "" {
		waits = filepath.Join(dir, "waits")
		if err := buildWaits(waits); err != nil {
			return err
		}
	}
	b := &bench{options: o, workshop: &workshop{burner: waits}, took: map[string]float64{}}
	b.profilers = o.ourKinds()[:switchingKinds]
	if o.peer != "" {
		b.profilers = append(b.profilers, peersOffCPU(o.contenders()[1])...)
	}
	b.results = newResults(len(b.profilers))
	identities, err := b.identities()
	if err != nil {
		return err
	}
	progress := func() error { return save(b.report(identities)) }
	ring := fixedWork{"switches", fmt.Sprintf("%d threads in a ring on each CPU", switchingThreads), func() []*exec.Cmd {
		return onEachCPU(func(cpu int) *exec.Cmd {
			command := []string{waits, "ring", fmt.Sprint(switchingThreads), fmt.Sprint(switchingTurns)}
			if runtime.NumCPU() > 1 {
				command = append([]string{"taskset", "-c", fmt.Sprint(cpu)}, command...)
			}
			return exec.Command(command[0], command[1:]...)
		})
	}}
	err = b.measureSlowdown([]fixedWork{ring}, progress)
	return errors.Join(err, b.report(identities).writeText(os.Stdout))
}
