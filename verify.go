package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/verify"
)

// verifyFlags are the flags of the command verify.
type verifyFlags struct {
	duration     time.Duration
	pid          uint32
	minAgreement float64
	json         bool
	rate         int
	examples     int
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [flags] [-- COMMAND ARGS...]",
		Short: "Measure on this machine whether stacks are right",
		Long: `Takes samples and lets perf record registers and stack at the same instant.
Unwinds that copy with a full interpreter of DWARF call frame information, which shares no
code with the unwinder, and compares the two frame by frame. Prints how many
agree, which stacks are incomplete and why, and the first few in full.

With COMMAND or --pid, that process and its descendants only; with COMMAND, until it ends
or the duration is over. Exits with 1 if fewer frames agree than --min-agreement.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return errors.New("a command must follow --")
			}
			if err := f.validate(len(args) > 0); err != nil {
				return err
			}
			report, err := f.run(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), report)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "how long to compare")
	flags.Uint32Var(&f.pid, "pid", 0, "compare this process and its descendants only")
	flags.Float64Var(&f.minAgreement, "min-agreement", 0.999, "share of compared frames that must agree, 0 to 1")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.IntVar(&f.rate, "sample-rate", 97, "samples per second and CPU")
	flags.IntVar(&f.examples, "examples", 1, "stacks shown in full of each kind that disagrees or is incomplete")
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
	case !(f.minAgreement >= 0 && f.minAgreement <= 1):
		return fmt.Errorf("--min-agreement must be between 0 and 1, got %g", f.minAgreement)
	}
	return nil
}

// run compares until the duration is over, the command has ended, or somebody
// interrupts.
func (f *verifyFlags) run(ctx context.Context, command []string, output io.Writer) (report *verify.Report, err error) {
	v, err := verify.Open(verify.Options{SampleRate: f.rate, TableBytes: ebpf.DefaultOptions().TableBytes, Examples: f.examples})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()

	ctx, cancel := context.WithTimeout(ctx, f.duration)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	pid := f.pid
	if len(command) > 0 {
		c, err := startCommand(command, output)
		if err != nil {
			return nil, err
		}
		defer c.end()
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

// command is a program that was started to be compared.
type command struct {
	process *os.Process
	ended   chan struct{}
}

// startCommand starts a program, whose output must not mix with the report.
func startCommand(args []string, output io.Writer) (*command, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, output, output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &command{process: cmd.Process, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // how it ends is its own affair
	}()
	return c, nil
}

// end terminates the program, if it still runs.
func (c *command) end() {
	const patience = 2 * time.Second
	_ = c.process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.ended:
	case <-time.After(patience):
		_ = c.process.Kill()
		<-c.ended
	}
}

// print writes the report; its verdict is the error.
func (f *verifyFlags) print(w io.Writer, r *verify.Report) error {
	write := r.WriteText
	if f.json {
		write = func(w io.Writer) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(r)
		}
	}
	if err := write(w); err != nil {
		return err
	}
	switch {
	case r.Frames == 0:
		return errors.New("no stack could be compared")
	case r.Agreement < f.minAgreement:
		return fmt.Errorf("%.4f of the frames agree, less than %.4f", r.Agreement, f.minAgreement)
	}
	return nil
}
