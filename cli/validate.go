package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/component/all"
	"github.com/headwater/headwater/ebpf/printable"
	"github.com/headwater/headwater/river"
)

func validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "validate PATH...",
		Short:   "Check configurations without running them",
		Long:    `Loads and checks each file or folder like headwater run, but starts no component.`,
		Example: "  headwater validate config.river",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bad := 0
			for _, path := range args {
				if err := validate(path); err != nil {
					bad++
					printLoadError(cmd.ErrOrStderr(), err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", path)
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d configurations are not valid", bad, len(args))
			}
			return nil
		},
	}
}

func validate(path string) error {
	registry, err := all.Registry()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "headwater-validate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	runtime := river.New(river.Options{
		Registry: registry,
		Logger:   river.NewLogger(io.Discard),
		DataPath: scratch,
	})
	return runtime.LoadPath(path)
}

// printLoadError prints diagnostics with the text that they refer to. It prints other errors unchanged.
func printLoadError(w io.Writer, err error) {
	var failed *river.LoadError
	if !errors.As(err, &failed) {
		fmt.Fprintln(w, "Error:", err)
		return
	}
	colored := wantsColor(w)
	if colored {
		w = printable.Unwrap(w) // the colors are escape sequences
	}
	_ = failed.Fprint(w, colored) // fails only if standard error is closed
	fmt.Fprintln(w)
}

// wantsColor reports whether w is a terminal on which colors are not disabled (NO_COLOR, see no-color.org).
func wantsColor(w io.Writer) bool {
	file, ok := printable.Unwrap(w).(*os.File)
	return ok && !color.NoColor && isatty.IsTerminal(file.Fd())
}
