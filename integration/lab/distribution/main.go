// Command distribution compares the profiler's stacks of a program with the stacks that perf unwinds from copies of its
// registers and stack. It is for programs that cannot have a library preloaded: static ones, and set-user-ID ones. Both
// sample in the same period but not at the same instants, so the command compares the distributions of whole stacks, by
// a permutation test.
//
//	integration/lab/run distribution [-seconds 10] [-rate 199] [-alpha 0.001] [-json FILE] -- COMMAND ARGS...
//
// It exits with 1 if the distributions differ. A correct unwinder fails the test with the probability alpha.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/walks"
)

func main() {
	log.SetFlags(0)
	seconds := flag.Int("seconds", 10, "how long to sample")
	rate := flag.Int("rate", 199, "samples per second of CPU time")
	alpha := flag.Float64("alpha", 0.001, "probability of a false alarm")
	output := flag.String("json", "", "write the report to this file as well")
	recorded := flag.String("record", "", "write the report to this file with what is needed to repeat it")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("distribution: which command? distribution [-seconds 10] -- COMMAND ARGS...")
	}
	r, err := runRecorded(*recorded, time.Duration(*seconds)*time.Second, *rate, flag.Args())
	if err == nil {
		r.print(os.Stdout)
		err = walks.WriteReport(*output, r)
	}
	if err == nil && r.P < *alpha {
		err = fmt.Errorf("the distributions differ: p = %.2g is below %g", r.P, *alpha)
	}
	if err != nil {
		log.Fatalf("distribution: %v", err)
	}
}

// runRecorded is like run, and saves a record unless path is "".
func runRecorded(path string, duration time.Duration, rate int, command []string) (*Report, error) {
	if path == "" {
		return compareStacks(duration, rate, command)
	}
	shown := append([]string{filepath.Base(command[0])}, command[1:]...)
	r, err := record.Start(fmt.Sprintf("integration/lab/run distribution -seconds %g -rate %d -record %s -- %s",
		duration.Seconds(), rate, path, strings.Join(shown, " ")))
	if err != nil {
		return nil, err
	}
	report, err := compareStacks(duration, rate, command)
	if err != nil {
		return nil, err
	}
	return report, r.Save(path, report)
}

// compareStacks samples a command with the profiler and perf at the same time.
func compareStacks(duration time.Duration, rate int, command []string) (report *Report, err error) {
	s, err := walks.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	time.Sleep(500 * time.Millisecond) // until all its threads are at work
	events, err := sampleThreads(s, cmd.Process.Pid, rate)
	defer closeAll(events)
	if err != nil {
		return nil, err
	}
	theirs, err := recordPerf(cmd.Process.Pid, rate, duration)
	if err != nil {
		return nil, err
	}
	closeAll(events)
	ours, err := s.Stop()
	if err != nil {
		return nil, err
	}
	plt, err := openPLT(cmd.Path)
	if err != nil {
		return nil, err
	}
	return compare(plt.without(stacksOf(ours)), plt.without(theirs))
}

// sampleThreads samples the current threads of a process.
func sampleThreads(s *walks.Sampler, pid, rate int) (events map[int]bool, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("the command has ended already: %w", err)
	}
	events = map[int]bool{}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return events, err
		}
		event, err := s.Sample(walks.ClockOf(rate), tid)
		if err != nil {
			return events, err
		}
		events[event] = true
	}
	return events, nil
}

func closeAll(events map[int]bool) {
	for event := range events {
		unix.Close(event)
		delete(events, event)
	}
}
