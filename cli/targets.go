package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/survey"
)

// targetsFlags are the flags of the command targets.
type targetsFlags struct {
	wait time.Duration
	all  bool
}

func targetsCommand() *cobra.Command {
	var f targetsFlags
	cmd := &cobra.Command{
		Use:   "targets PATH",
		Short: "Show which target each process has, or why it has none",
		Long: `Loads a configuration, and runs its discovery components until they have found their targets. For
each pyroscope.ebpf, it lists the processes to profile with their labels, and for all other
processes the reason. Nothing is profiled and nothing is sent.`,
		Example: `  sudo headwater targets config.river
  sudo headwater targets --all --wait 30 config.river`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.wait <= 0 {
				return fmt.Errorf("--wait must be longer than 0s, got %s", f.wait)
			}
			ctx, cancel := interruptible(cmd.ErrOrStderr())
			defer cancel()
			return f.showTargets(ctx, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	durationVar(cmd.Flags(), &f.wait, "wait", 15*time.Second,
		"how long to wait for discovery components that have found nothing yet")
	cmd.Flags().BoolVar(&f.all, "all", false, "also show processes that are in no container and match no target")
	return cmd
}

func (f *targetsFlags) showTargets(ctx context.Context, path string, stdout, stderr io.Writer) error {
	s, err := survey.Start(path)
	if err != nil {
		printLoadError(stderr, err)
		return errors.New("could not load the configuration")
	}
	defer s.Close()
	if err := s.Wait(ctx, f.wait); err != nil {
		return err
	}
	return s.Print(stdout, f.all)
}
