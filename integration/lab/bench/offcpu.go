package main

import (
	"encoding/json"
	"errors"
	"os"
)

// offCPUCosts are the costs of off-CPU profiling, compared with the peer.
type offCPUCosts struct {
	Machine string       `json:"emulated_machine"` // its kernel
	Peer    identity     `json:"peer"`
	Works   []*kindCosts `json:"works"`
}

// peerShares are the shares of waits that the peer must report.
var peerShares = []string{"0.01", "1"}

// measureOffCPU measures with a copy of this program in a machine with kprobes.
func measureOffCPU(o options, dir string, save func(any) error) (err error) {
	found := offCPUCosts{Machine: machineKernel}
	if found.Peer, err = o.contenders()[1].identity(o.interval); err != nil {
		return err
	}
	return o.measureInMachine(dir, "-off-cpu", false, func(values json.RawMessage) error {
		if err := json.Unmarshal(values, &found.Works); err != nil {
			return err
		}
		for _, work := range found.Works {
			work.write()
		}
		return save(found)
	})
}

// measureOffCPUHere is the measurement of the copy. Its machine contains only the given files, and no compiler.
func measureOffCPUHere(o options) error {
	contenders := o.contenders()
	ours := contenders[0]
	ours.name = "Headwater, CPU time"
	waiting := ours
	waiting.name, waiting.block = "Headwater, and off-CPU time", "off_cpu { }"
	profilers := append([]contender{{name: "no profiler"}, ours, waiting}, peersOffCPU(contenders[1])...)
	return o.measureEach(waitWork(o.waits), profilers, printValues)
}

// peersOffCPU returns the peer without off-CPU profiling, and with each of the peerShares.
func peersOffCPU(peer contender) []contender {
	if _, err := os.Stat("/sys/kernel/tracing/events"); err == nil {
		peer.tracefs = false // it is mounted already
	}
	all := []contender{peer}
	all[0].name = "peer, CPU time"
	for _, share := range peerShares {
		c := peer
		c.name, c.arguments = "peer, and off-CPU time, threshold "+share, peer.arguments+" -off-cpu-threshold "+share
		all = append(all, c)
	}
	return all
}

// checkMachine refuses options that an emulated machine does not support.
func (o *options) checkMachine() error {
	switch {
	case o.counted && !o.switches:
		return errors.New("-counted: only -switches is measured where time goes by instructions")
	case o.counted && o.peer != "" || o.offCPU:
		if o.peer == "" || o.peerIsHeadwater || o.peerIsAlloy {
			return errors.New("-peer must be opentelemetry-ebpf-profiler, built with CGO_ENABLED=0")
		}
	}
	return nil
}
