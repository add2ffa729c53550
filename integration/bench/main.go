// Command bench measures what the whole profiler costs and how much it sees, and
// compares it with another profiler that runs in alternation on the same work:
//
//	go run ./integration/bench [-peer BINARY [-peer-args TEMPLATE]] [-rounds N] [-json]
//	go run ./integration/bench -quick [-frames 1,21,61,121]     nanoseconds per sample only
//	go run ./integration/bench -resident [-only clang]          unwind rows in memory beside whole tables only
//
// Figures of a shared machine drift; the ratios of profilers that took turns are
// what counts. The command never judges: it prints what was reached beside what
// was aimed at.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// reportInterval is how often profilers report where nothing else is said: what
// the peer does by default.
const reportInterval = 5 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	o, err := parseFlags()
	if err != nil {
		return err
	}
	if o.show != "" {
		return showReport(o.show)
	}
	dir, err := os.MkdirTemp("", "headwater-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		o.binary = filepath.Join(dir, "headwater")
		if err := buildHeadwater(o.binary); err != nil {
			return err
		}
	}
	stop, err := countRunTime()
	if err != nil {
		return err
	}
	defer stop()
	if o.quick {
		fmt.Println("load average:", loadAverage())
		return quick(o.contenders(), o, dir)
	}
	if o.resident {
		return resident(o, dir)
	}
	return compare(o, dir)
}

// buildHeadwater builds the tree's binary as `make build` does.
func buildHeadwater(path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// compare measures everything and prints the table.
func compare(o options, dir string) error {
	w, err := newWorkshop(dir, o.frames)
	if err != nil {
		return err
	}
	b := newBench(o, w)
	before := readConditions()
	err = b.run(func() error {
		if o.out == "" {
			return nil
		}
		return b.report(before, readConditions()).save(o.out)
	})
	if err != nil {
		return err
	}
	report := b.report(before, readConditions())
	if o.json {
		return report.writeJSON(os.Stdout)
	}
	return report.writeText(os.Stdout)
}

// showReport prints the table of a report.
func showReport(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return r.writeText(os.Stdout)
}
