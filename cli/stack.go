package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/stacks"
)

// stackFlags are the flags of the command stack.
type stackFlags struct {
	json   bool
	group  bool
	inline bool
	core   string
	exe    string
}

func stackCommand() *cobra.Command {
	var f stackFlags
	cmd := &cobra.Command{
		Use:   "stack [flags] PID|TID|--core FILE",
		Short: "Show the stacks of all threads of a process now, without stopping it",
		Long: `Shows the stack of each thread of a process: functions of the kernel, functions of files with lines
from debug info, inlined functions, and functions of Python, Java and JavaScript. With a thread ID
other than the process ID, stack shows only this thread.

Each thread has its state, the reason for its wait, and the time that it has been off CPU. The
process is never stopped. A waiting thread is read while it waits; if it ran during the read, it is
read again. A running thread is sampled by a timer, for up to 300 ms. A stack is marked [whole] if
it is of one moment and reaches from the leaf to the root. Otherwise the mark gives the reason.

With --core, stack shows the threads of a core file of x86-64 or arm64. Memory that the core lacks
is read from the files that the process had mapped, if their build IDs are equal. This needs no
privileges.

The exit code is 0 if stacks were shown, and 2 if not.`,
		Example: `  headwater stack 4711
  headwater stack --group $(pidof java)
  headwater stack --core core.4711
  headwater stack --json 4711 | jq '.threads[] | select(.wait == "lock")'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.core != "" && len(args) > 0 {
				return errors.New("--core FILE takes no process or thread ID: all threads of the core file are shown")
			}
			if f.core != "" {
				return nil
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		ValidArgsFunction: completeProcess,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.printStacks(cmd.Context(), args, cmd.OutOrStdout()); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "write JSON")
	flags.BoolVar(&f.group, "group", false, "show threads with equal stacks once; not with --json")
	flags.BoolVar(&f.inline, "inline", true, "show inlined functions")
	flags.StringVar(&f.core, "core", "", "show the threads of this core file")
	flags.StringVar(&f.exe, "exe", "", "with --core: the program's file, if it is not at the path in the core")
	return cmd
}

func (f *stackFlags) printStacks(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case f.json && f.group:
		return errors.New("--json and --group exclude each other")
	case f.exe != "" && f.core == "":
		return errors.New("--exe needs a core file: add --core FILE")
	}
	report, err := f.report(ctx, args)
	switch {
	case err != nil:
		return err
	case f.json:
		return report.WriteJSON(out)
	}
	return report.WriteText(out, f.group)
}

// report takes the stacks. While it reads a core file, signals end the process.
func (f *stackFlags) report(ctx context.Context, args []string) (*stacks.Report, error) {
	if f.core != "" {
		return stacks.OfCore(f.core, f.exe, f.inline)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	pid, tid, err := stacks.Resolve(args[0])
	if err != nil {
		return nil, err
	}
	return stacks.Take(ctx, pid, tid, f.inline)
}
