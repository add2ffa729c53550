// Command instant compares the profiler's stacks with the stacks that libgcc's unwinder finds at exactly the same
// instruction. It preloads a library into a command and its child processes. Perf events of these processes run the
// profiler's BPF program and send the thread a SIGTRAP at the sampled instruction, where the library calls
// _Unwind_Backtrace.
//
//	integration/lab/run instant [-java|-python] [-rate 499] [-json FILE] [-record FILE] -- COMMAND ARGS...
//
// Static programs and set-user-ID programs are not examined.
//
// With -java the library is an agent of the Java VMs that the command starts, and calls HotSpot's AsyncGetCallTrace.
// The command then compares methods and lines of compiled code, including inlined methods. The VMs must end by
// themselves.
//
// With -python, the library also calls the module faulthandler of Python programs in the same handler, and the command
// also compares the functions that it reports.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/walks"
)

func main() {
	log.SetFlags(0)
	rate := flag.Int("rate", 499, "samples per second of each thread's CPU time")
	output := flag.String("json", "", "write the report to this file as well")
	recorded := flag.String("record", "", "write the report to this file with what is needed to repeat it")
	examples := flag.Int("examples", 2, "stacks shown in full of each kind that differs")
	java := flag.Bool("java", false, "compare Java frames with HotSpot's AsyncGetCallTrace")
	python := flag.Bool("python", false, "compare Python functions with those of faulthandler as well")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("instant: which command? instant [-rate 499] [-json FILE] -- COMMAND ARGS...")
	}
	o := oracle(libgcc{})
	if *java {
		o = hotspot{}
	} else if *python {
		o = faulthandler{}
	}
	report, err := runRecorded(*recorded, o, *rate, *examples, flag.Args())
	if err == nil {
		report.print(os.Stdout)
		err = walks.WriteReport(*output, report)
	}
	if err == nil && report.wrong() > 0 {
		err = fmt.Errorf("%d stacks differ", report.wrong())
	}
	if err == nil && report.compared() == 0 {
		err = errors.New("no frame could be compared")
	}
	if err != nil {
		log.Fatalf("instant: %v", err)
	}
}

// runRecorded is like run, and saves a record unless path is "".
func runRecorded(path string, o oracle, rate, examples int, command []string) (report, error) {
	if path == "" {
		return runOracle(o, rate, examples, command)
	}
	r, err := record.Start(fmt.Sprintf("integration/lab/run instant%s -rate %d -record %s -- %s",
		o.flag(), rate, path, strings.Join(command, " ")))
	if err != nil {
		return nil, err
	}
	found, err := runOracle(o, rate, examples, command)
	if err != nil {
		return nil, err
	}
	return found, r.Save(path, found)
}

// report is the result of a run.
type report interface {
	print(w io.Writer)
	wrong() int    // stacks that differ
	compared() int // frames
}

// oracle determines stacks in the sampled thread, by a library.
type oracle interface {
	flag() string // for this command, with a leading space
	compile(dir string) (library string, err error)
	environment(library string) []string
	compare(all []walks.Walk, socket string, examples int) (report, error)
}

// libgcc compares with the unwinder of GCC's runtime library.
type libgcc struct{}

func (libgcc) flag() string                        { return "" }
func (libgcc) compile(dir string) (string, error)  { return compile(dir, "backtrace.c", "-lgcc_s") }
func (libgcc) environment(library string) []string { return []string{"LD_PRELOAD=" + library} }
func (libgcc) compare(all []walks.Walk, socket string, examples int) (report, error) {
	traces, err := readTraces(socket)
	if err != nil {
		return nil, err
	}
	return compare(all, traces, examples), nil
}

// runOracle compares until the command ends.
func runOracle(o oracle, rate, examples int, command []string) (found report, err error) {
	dir, err := os.MkdirTemp("", "instant")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil { // programs of other users write here too
		return nil, err
	}
	library, err := o.compile(dir)
	if err != nil {
		return nil, err
	}
	s, err := walks.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := listen(dir, func(pid int) (int, error) { return s.Sample(eventOf(rate), pid) })
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := runCommand(command, append(o.environment(library), "HEADWATER_INSTANT="+l.path)); err != nil {
		return nil, err
	}
	l.close()
	samples, err := s.Stop()
	if err != nil {
		return nil, err
	}
	return o.compare(samples, l.path, examples)
}

// runCommand runs a command to its end, with additional environment variables.
func runCommand(command, environment []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() != nil {
		return nil // interrupted: the command's error does not matter
	}
	if err != nil {
		return fmt.Errorf("%v: %w", command, err)
	}
	return nil
}
