package cli

import (
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/flame/export"
)

func scriptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "script FILE",
		Short: "Print the samples of a pprof file as perf script does",
		Long: `Prints each sample as a line with process, thread and time, and its functions below, for programs
that read the text of perf script. Times and threads need a recording with --timestamps and
--threads. In other files they are 0.`,
		Example: `  headwater record -a -d 10 --threads --timestamps
  headwater script headwater.pb.gz | stackcollapse-perf.pl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := profilefile.Read(cmd.Context(), args[0], cmd.InOrStdin())
			if err == nil {
				err = export.PerfScript(cmd.OutOrStdout(), p)
			}
			if err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
}
