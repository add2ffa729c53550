// Command bench measures the cost and the completeness of the whole profiler, and compares it with another profiler
// that runs in alternation on the same work:
//
//	integration/lab/run bench [-peer BINARY [-peer-args TEMPLATE]] [-rounds N]
//	integration/lab/run bench -peer BINARY -peer-is-alloy      compared with Grafana Alloy, which also names frames
//	integration/lab/run bench -quick [-frames 1,21,61,121]     nanoseconds per sample only
//	integration/lab/run bench -quick -python [-frames 10,110]  the same, of functions of Python
//	integration/lab/run bench -resident [-only clang]          only unwind rows in memory, compared with whole tables
//	integration/lab/run bench -languages [-peer BINARY]         programs in Python, JavaScript and Java only
//	integration/lab/run bench -kinds [-rounds 3 -time 10s]     the cost of kinds of samples, compared with CPU time
//	integration/lab/run bench -switches                        how much kinds slow down threads that wait
//	integration/lab/run bench -off-cpu -peer BINARY             the cost of off-CPU time, in a machine with kprobes
//	integration/lab/run bench -redis                           requests of redis while memory in use is profiled
//	integration/lab/run bench -parts [-peer OLD -peer-is-headwater] the agent's CPU time by part
//	integration/lab/run bench -show FILE                       the table of a record
//
// With -record FILE it saves the measured values, as package record describes; the tables of docs/performance.md are
// generated from such files.
//
// Absolute figures from a shared machine drift; the ratios of profilers that take turns are reliable. The command does
// not judge: it prints results next to targets.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/headwater/headwater/integration/testkit/record"
)

func main() {
	if err := runBench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench() error {
	o, err := parseFlags()
	if err != nil {
		return err
	}
	if o.show != "" {
		return showReport(o.show)
	}
	save, err := o.startRecord()
	if err != nil {
		return err
	}
	if o.waits != "" {
		save = printValues
	}
	dir, err := os.MkdirTemp("", "headwater-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		o.binary = filepath.Join(dir, "headwater")
		if err := buildStatic(o.binary, ".", "."); err != nil {
			return err
		}
	}
	switch {
	case o.quick:
		return counting(func() error {
			fmt.Println("load average:", loadAverage())
			return quick(o.contenders(), o, dir)
		})
	case o.kinds:
		return counting(func() error { return measureKinds(o, dir, save) })
	case o.switches:
		return measureSwitches(o, dir, save)
	case o.redis:
		return measureRedis(o, save)
	case o.offCPU && o.waits != "":
		return counting(func() error { return measureOffCPUHere(o) })
	case o.offCPU:
		return measureOffCPU(o, dir, save)
	case o.parts:
		return counting(func() error { return measureParts(o, dir, save) })
	case o.resident:
		return counting(func() error { return resident(o, dir, save) })
	}
	return compare(o, dir, save)
}

// startRecord records the circumstances, if requested, and returns the function that saves values. That function may be
// called repeatedly, with more values each time.
func (o *options) startRecord() (save func(values any) error, err error) {
	if o.record == "" && !o.quiet {
		return func(any) error { return nil }, nil
	}
	recorder, err := record.Start(o.command())
	if err != nil {
		return nil, err
	}
	if o.quiet {
		if err := recorder.Quiet(); err != nil {
			return nil, err
		}
	}
	return func(values any) error {
		if o.record == "" {
			return nil
		}
		return recorder.Save(o.record, values)
	}, nil
}

// counting makes the kernel count the runs of BPF programs while measure runs.
func counting(measure func() error) error {
	stop, err := countRunTime()
	if err != nil {
		return err
	}
	defer stop()
	return measure()
}

// labModule is the folder of the module of this package.
const labModule = "integration/lab"

// buildStatic builds a package of the module in a folder like `make build` builds Headwater.
func buildStatic(path, module, of string) error {
	cmd := exec.Command("go", "build", "-C", module, "-trimpath", "-buildvcs=false", "-o", path, of)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// compare measures everything and prints the table.
func compare(o options, dir string, save func(any) error) error {
	w, err := newWorkshop(dir, o.frames)
	if err != nil {
		return err
	}
	b := newBench(o, w)
	identities, err := b.identities()
	if err != nil {
		return err
	}
	for _, id := range identities[1:] {
		if o.record != "" && id.Revision == "" {
			return fmt.Errorf("the %s's program does not say which commit it is of, so nobody could repeat the record: "+
				"build it in its checkout by go build -buildvcs=true", id.Name)
		}
	}
	progress := func() error { return save(b.report(identities)) }
	err = counting(func() error { return b.runRounds(progress) })
	if !b.languages {
		err = errors.Join(err, b.measureSlowdown(b.fixedWorks(), progress))
	}
	err = errors.Join(err, progress())
	return errors.Join(err, b.report(identities).writeText(os.Stdout))
}

// showReport prints the table of a record.
func showReport(path string) error {
	var r report
	saved, err := record.Read(path, &r)
	if err != nil {
		return err
	}
	fmt.Printf("%s, commit %s, %d CPUs (%s), Linux %s, load average %.2f, then %.2f; %.1f %% stolen\n",
		saved.Date.Format(time.DateOnly), saved.Commit,
		saved.Machine.CPUs, saved.Machine.CPU, saved.Machine.Kernel, saved.Before.Average[0], saved.After.Average[0],
		saved.Steal)
	return r.writeText(os.Stdout)
}
