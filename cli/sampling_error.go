package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/ebpf/record"
)

// endOfSampling adds advice to the error of a command that takes samples, and sets the exit code for failures unless
// the error has its own. A silent error is not printed.
func endOfSampling(cmd *cobra.Command, err error) error {
	cmd.SilenceErrors = errors.As(err, &silent{})
	if e := (exitError{}); err == nil || errors.As(err, &e) {
		return err
	}
	return exitError{explainRefusal(err), exitUsage}
}

// silent is an error that is not printed.
type silent struct{}

func (silent) Error() string { return "" }

// explainRefusal adds advice to an error.
func explainRefusal(err error) error {
	if gone := (*record.NoProcessError)(nil); errors.As(err, &gone) && gone.Of != 0 {
		return fmt.Errorf("%w: use -t %d for the thread, or -p %d", gone, gone.ID, gone.Of)
	}
	return err
}
