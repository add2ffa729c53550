package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// offCPUCosts are what time off CPU costs, next to the peer.
type offCPUCosts struct {
	Machine string       `json:"emulated_machine"` // its kernel
	Peer    identity     `json:"peer"`
	Works   []*kindCosts `json:"works"`
}

// offCPUMachine is where that is measured: the peer's needs kprobes, which kernels of virtual machines may lack, and an
// emulated machine has its own kernel. Costs there compare with each other alone: instructions take long, and caches
// do not count.
const offCPUMachine = "6.12/amd64"

// peerShares are the shares of waits that the peer is told to report.
var peerShares = []string{"0.01", "1"}

// measureOffCPU has a copy of this program measure in another machine.
func measureOffCPU(o options, dir string, save func(any) error) (err error) {
	found := offCPUCosts{Machine: offCPUMachine}
	if found.Peer, err = o.contenders()[1].identity(o.interval); err != nil {
		return err
	}
	waits, bench := filepath.Join(dir, "waits"), filepath.Join(dir, "bench")
	if err := buildWaits(waits, "-static"); err != nil {
		return err
	}
	if err := buildStatic(bench, "./integration/bench"); err != nil {
		return err
	}
	machine := exec.Command("go", "run", "./integration/kernels", "-cells", offCPUMachine, "-timeout", "3h",
		"-program", bench, "-file", "headwater="+o.binary, "-file", "peer="+o.peer, "-file", "waits="+waits, "--",
		"-off-cpu", "-waits", "/waits", "-binary", "/headwater", "-peer", "/peer", "-peer-args", o.peerArguments,
		"-rate", fmt.Sprint(o.rate), "-rounds", fmt.Sprint(o.rounds), "-interval", o.interval.String(),
		"-warm", o.warm.String(), "-time", o.time.String(), "-only="+o.only.String())
	machine.Stderr = os.Stderr
	out, err := machine.Output()
	text, values, ok := strings.Cut(string(out), valuesMark)
	if err == nil && !ok {
		err = errors.New("no values were printed")
	}
	if err != nil {
		return fmt.Errorf("measure in another machine: %w\n%s", err, out)
	}
	fmt.Print(text)
	if err := json.Unmarshal([]byte(values), &found.Works); err != nil {
		return err
	}
	return save(found)
}

// valuesMark is before the values in what the copy prints.
const valuesMark = "values: "

// measureOffCPUHere is what the copy does. Its machine has no compiler, nor anything else but what it was given.
func measureOffCPUHere(o options) error {
	contenders := o.contenders()
	ours, peer := contenders[0], contenders[1]
	if _, err := os.Stat("/sys/kernel/tracing/events"); err == nil {
		peer.tracefs = false // it is mounted
	}
	ours.name, peer.name = "Headwater, CPU time", "peer, CPU time"
	waiting := ours
	waiting.name, waiting.block = "Headwater, and off-CPU time", "off_cpu { }"
	profilers := []contender{{name: "no profiler"}, ours, waiting, peer}
	for _, share := range peerShares {
		c := peer
		c.name, c.arguments = "peer, and off-CPU time, threshold "+share, peer.arguments+" -off-cpu-threshold "+share
		profilers = append(profilers, c)
	}
	var values []byte
	err := o.measureEach(waitWork(o.waits), profilers, func(all any) (err error) {
		values, err = json.Marshal(all)
		return err
	})
	if err == nil {
		fmt.Printf("%s%s\n", valuesMark, values)
	}
	return err
}

// checkOffCPU refuses what cannot be measured.
func (o *options) checkOffCPU() error {
	if o.offCPU && (o.peer == "" || o.peerIsHeadwater || o.peerIsAlloy) {
		return errors.New("-off-cpu: -peer must be opentelemetry-ebpf-profiler, built with CGO_ENABLED=0")
	}
	return nil
}
