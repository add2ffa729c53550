package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/outfile"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/verify"
)

// verifyFlags are the flags of the command verify.
type verifyFlags struct {
	duration time.Duration
	pid      uint32
	limits   verify.Limits
	json     bool
	rate     int
	examples int
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [flags] [-- COMMAND ARGS...]",
		Short: "Check the stacks of this machine against a second unwinder",
		Long: `Takes samples, and lets perf copy registers and stack at the same instant. A reference unwinder
walks the copy by the DWARF and LSB specifications. Verify compares the two stacks frame by frame.
The reference unwinder shares no code with the profiler: it has its own perf events for the mappings
of processes, opens the files itself, and has its own reader and interpreter of call frame
information, with all registers and expressions.

First, verify prints how many stacks could be compared, and the reasons for the rest. One reason is
code without call frame information, which the profiler follows in other ways. Then it prints how
many frames agree, which stacks are incomplete with the reasons, and a few of these stacks in full.
Frames are callers: the sampled instruction itself is not counted.

With --pid, verify compares only this process and its descendants. With COMMAND, it compares only
this program and its descendants, until the program ends or the duration is over.

The exit code is 0 if all limits hold (--min-agreement, --min-complete, --min-coverage), 1 if a
limit is broken or no stack could be compared, and 2 if verify could not run.`,
		Example: `  sudo headwater verify --duration 30
  sudo headwater verify --pid 4711
  sudo headwater verify --json -- ./program arguments | jq .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.report(cmd, args)
			if err != nil {
				return exitError{err, exitUsage}
			}
			if err := f.print(cmd.OutOrStdout(), report); err != nil {
				return exitError{err, exitUsage}
			}
			return report.Judge(f.limits)
		},
	}
	flags := cmd.Flags()
	durationVar(flags, &f.duration, "duration", 10*time.Second, "how long to compare")
	flags.Uint32Var(&f.pid, "pid", 0, "compare only this process and its descendants")
	limits := verify.DefaultLimits()
	flags.Float64Var(&f.limits.Agreement, "min-agreement", limits.Agreement,
		"share of compared frames that must agree, 0 to 1; a missing frame does not agree")
	flags.Float64Var(&f.limits.Complete, "min-complete", limits.Complete,
		"share of user stacks that must be complete, 0 to 1")
	flags.Float64Var(&f.limits.Coverage, "min-coverage", limits.Coverage,
		"share of the profiler's frames that must be compared, 0 to 1")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.IntVar(&f.rate, "sample-rate", 97, "samples per second and CPU")
	flags.IntVar(&f.examples, "examples", 1, "stacks to show in full, for each kind of difference and of incomplete stack")
	completeProcesses(cmd, "pid")
	return cmd
}

func (f *verifyFlags) validate(command bool) error {
	switch {
	case f.pid != 0 && command:
		return errors.New("--pid and a command exclude each other")
	case f.duration <= 0:
		return fmt.Errorf("--duration must be positive, got %s", f.duration)
	case f.rate < ebpf.MinSampleRate || f.rate > ebpf.MaxSampleRate:
		return fmt.Errorf("--sample-rate must be between %d and %d, got %d", ebpf.MinSampleRate, ebpf.MaxSampleRate, f.rate)
	}
	return f.limits.Validate()
}

// report checks the arguments and compares stacks.
func (f *verifyFlags) report(cmd *cobra.Command, args []string) (*verify.Report, error) {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return nil, errors.New("put -- before the command")
	}
	if err := f.validate(len(args) > 0); err != nil {
		return nil, err
	}
	return f.verifyStacks(cmd.Context(), args, cmd.ErrOrStderr())
}

// verifyStacks compares until the duration is over, the command has ended, or a signal interrupts it.
func (f *verifyFlags) verifyStacks(
	ctx context.Context, command []string, output io.Writer,
) (report *verify.Report, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // loading takes seconds on a busy host
	defer stop()
	v, err := verify.Open(verify.Options{SampleRate: f.rate, TableBytes: ebpf.DefaultTableBytes,
		Examples: f.examples})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()

	ctx, cancel := context.WithTimeout(ctx, f.duration)
	defer cancel()
	pid := f.pid
	if len(command) > 0 {
		c, err := startCommand(command, output)
		if err != nil {
			return nil, err
		}
		defer c.endCommand()
		go func() { <-c.ended; cancel() }()
		pid = uint32(c.process.Pid)
	}
	if pid != 0 {
		if err := v.Restrict(pid); err != nil {
			return nil, err
		}
	}
	return v.Run(ctx)
}

// command is a program that runs while stacks are compared.
type command struct {
	process *os.Process
	ended   chan struct{}
}

// startCommand starts a program. Its output must not mix with the report.
func startCommand(args []string, output io.Writer) (*command, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, output, output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &command{process: cmd.Process, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // its exit code does not matter
	}()
	return c, nil
}

// endCommand terminates the program, if it still runs.
func (c *command) endCommand() {
	const patience = 2 * time.Second
	_ = c.process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.ended:
	case <-time.After(patience):
		_ = c.process.Kill()
		<-c.ended
	}
}

// print writes the report.
func (f *verifyFlags) print(w io.Writer, r *verify.Report) error {
	if !f.json {
		return r.WriteText(w)
	}
	return outfile.WriteJSON(w, r)
}
