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

// machineKernel is the kernel of the emulated machine in which a copy of this program measures. The machine has
// features that this host may lack: kprobes, which are missing in the kernels of some virtual machines, and a clock
// that counts instructions. Costs measured there can only be compared with each other: instructions are slow, and
// caches have no effect.
const machineKernel = "6.12/amd64"

// measureInMachine runs a copy of this program in an emulated machine. option selects the copy's measurement. It saves
// the last values that the copy prints.
func (o *options) measureInMachine(dir, option string, counted bool, save func(json.RawMessage) error) error {
	waits, bench := filepath.Join(dir, "waits"), filepath.Join(dir, "bench")
	if err := buildWaits(waits, "-static"); err != nil {
		return err
	}
	if err := buildStatic(bench, labModule, "./bench"); err != nil {
		return err
	}
	machine := exec.Command("go", "run", "./integration/kernels", "-cells", machineKernel, "-timeout", "3h",
		"-program", bench, "-file", "headwater="+o.binary, "-file", "waits="+waits)
	arguments := []string{
		option, "-waits", "/waits", "-binary", "/headwater", "-rate", fmt.Sprint(o.rate), "-rounds", fmt.Sprint(o.rounds),
		"-interval", o.interval.String(), "-warm", o.warm.String(), "-time", o.time.String(), "-only=" + o.only.String(),
		"-slowdown-rounds", fmt.Sprint(o.slowRounds),
	}
	if o.peer != "" {
		machine.Args = append(machine.Args, "-file", "peer="+o.peer)
		arguments = append(arguments, "-peer", "/peer", "-peer-args", o.peerArguments)
	}
	if counted {
		machine.Args = append(machine.Args, "-counted")
	}
	machine.Args = append(append(machine.Args, "--"), arguments...)
	machine.Stderr = os.Stderr
	out, err := machine.Output()
	at := strings.LastIndex(string(out), valuesMark)
	if err == nil && at < 0 {
		err = errors.New("no values were printed")
	}
	if err != nil {
		return fmt.Errorf("measure in another machine: %w\n%s", err, out)
	}
	var values json.RawMessage
	if err := json.NewDecoder(strings.NewReader(string(out[at+len(valuesMark):]))).Decode(&values); err != nil {
		return err
	}
	return save(values)
}

// valuesMark precedes values in the copy's output.
const valuesMark = "values: "

// printValues is the copy's function for saving values.
func printValues(values any) error {
	text, err := json.Marshal(values)
	if err == nil {
		fmt.Printf("%s%s\n", valuesMark, text)
	}
	return err
}
