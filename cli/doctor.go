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
		Short: "Check this machine for profiling, and show the remedies",
		Long: `Checks the kernel, its settings, the capabilities of this process, debug files, and the language
runtimes of running processes. Below each defect stands its remedy. Doctor loads no program and
changes no setting.

Run doctor as the user, or in the container, that runs the profiler.

The exit code is 0 if profiling works, 1 if a requirement is missing, and 2 if doctor itself failed.`,
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
				return errors.New("profiling does not work on this machine: see the lines marked missing")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
