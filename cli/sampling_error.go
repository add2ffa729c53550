package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/ebpf/record"
)

// endOfSampling makes the error of a command that takes samples say what to do, and gives it the exit code of trouble
// unless it has one of its own. One that needs no words is not printed.
func endOfSampling(cmd *cobra.Command, err error) error {
	cmd.SilenceErrors = errors.As(err, &silent{})
	if e := (exitError{}); err == nil || errors.As(err, &e) {
		return err
	}
	return exitError{explainRefusal(err), exitUsage}
}

// silent is an error that needs no words.
type silent struct{}

func (silent) Error() string { return "" }

// explainRefusal adds to an error what to do about it.
func explainRefusal(err error) error {
	if gone := (*record.NoProcessError)(nil); errors.As(err, &gone) && gone.Of != 0 {
		return fmt.Errorf("%w: use -t %d for the thread, or -p %d", gone, gone.ID, gone.Of)
	}
	return err
}
