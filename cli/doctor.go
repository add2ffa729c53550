package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/doctor"
)

// doctorPatience bounds the search for runtimes.
const doctorPatience = 10 * time.Second

func doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Show what this machine lacks for profiling, and what to do",
		Long: `Looks at the kernel, its settings, the capabilities of this process, debug files, and
the language runtimes of running processes. What is not as it should be is followed by
what to do. Nothing is loaded and nothing is changed.

Run it as the user, or in the container, that is to profile.

The exit code is 0 if nothing is missing that profiling needs, 1 if something is, and 2 if
doctor could not do its work.`,
		Example: `  sudo headwater doctor
  headwater doctor --json | jq '.findings[] | select(.state != "ok")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorPatience)
			defer cancel()
			report := doctor.Examine(ctx)
			write := report.WriteText
			if asJSON {
				write = report.WriteJSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return exitError{err, exitUsage}
			}
			if report.Worst() == doctor.Bad {
				return errors.New("profiling does not work here yet")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
