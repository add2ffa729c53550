package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/river"
)

func fmtCommand() *cobra.Command {
	var write, test bool
	cmd := &cobra.Command{
		Use:     "fmt [flags] [FILE|-]",
		Aliases: []string{"format"},
		Short:   "Format a River file",
		Long: `Writes a River file in its standard form to standard output. Without FILE, or
with -, it reads standard input.`,
		Example: `  headwater fmt config.river
  headwater fmt --write config.river`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			f := formatter{in: cmd.InOrStdin(), out: cmd.OutOrStdout(), errors: cmd.ErrOrStderr()}
			return f.formatPath(name, write, test)
		},
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "write the result to FILE instead of standard output")
	cmd.Flags().BoolVarP(&test, "test", "t", false, "write nothing; fail if FILE is not in its standard form")
	return cmd
}

type formatter struct {
	in          io.Reader
	out, errors io.Writer
}

func (f formatter) formatPath(name string, write, test bool) error {
	if name == "-" && write {
		return errors.New("cannot use -w with standard input")
	}
	text, err := f.readFile(name)
	if err != nil {
		return err
	}
	formatted, err := river.Format(name, text)
	var failed *river.LoadError
	switch {
	case errors.As(err, &failed):
		printLoadError(f.errors, err)
		return errors.New("encountered errors during formatting")
	case err != nil:
		return err
	case test && !bytes.Equal(text, formatted):
		return fmt.Errorf("%s is not formatted", name)
	case test, write && bytes.Equal(text, formatted):
		return nil
	case write:
		return os.WriteFile(name, formatted, 0o644) // keeps the mode of an existing file
	default:
		_, err = f.out.Write(formatted)
		return err
	}
}

func (f formatter) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(f.in)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("cannot format %s: it is a folder", name)
	}
	return os.ReadFile(name)
}
