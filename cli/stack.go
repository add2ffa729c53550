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
}

func stackCommand() *cobra.Command {
	var f stackFlags
	cmd := &cobra.Command{
		Use:   "stack [flags] PID|TID",
		Short: "Show the stacks of all threads of a process now, without stopping it",
		Long: `Shows the stack of each thread of a process: the kernel's part, functions of files with
their lines where debug info has them, those that were inlined, and functions of Python,
Java and JavaScript. With the ID of another thread than the first one of its process, it
shows that thread alone.

A thread has its state, what it waits for, and for how long it has been on no CPU. The
process is never stopped. A thread that waits is read while it does; if it ran meanwhile,
it is read again. A thread that runs is sampled by a timer, up to 300 ms. A stack is
marked [whole] if it is of one moment and reaches from the leaf to the root; else it says
why not.

The exit code is 0 if stacks were shown, and 2 if not.`,
		Example: `  headwater stack 4711
  headwater stack --group $(pidof java)
  headwater stack --json 4711 | jq '.threads[] | select(.wait == "lock")'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.run(cmd.Context(), args[0], cmd.OutOrStdout()); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "write JSON")
	flags.BoolVar(&f.group, "group", false, "show threads with equal stacks once; not with --json")
	flags.BoolVar(&f.inline, "inline", true, "show functions that were inlined into others")
	return cmd
}

func (f *stackFlags) run(ctx context.Context, id string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if f.json && f.group {
		return errors.New("--json and --group exclude each other")
	}
	pid, tid, err := stacks.Resolve(id)
	if err != nil {
		return err
	}
	report, err := stacks.Take(ctx, pid, tid, f.inline)
	switch {
	case err != nil:
		return err
	case f.json:
		return report.WriteJSON(out)
	}
	return report.WriteText(out, f.group)
}
