package cli

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/flame/export"
)

// reportFlags are the flags of the command report.
type reportFlags struct {
	top           int
	tree, folded  bool
	focus, ignore string
	by            string
}

func reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [flags] FILE",
		Short: "Show a pprof file as text",
		Long: `Shows a pprof file of any program as text: the functions with most samples, the call tree, folded
stacks, or the shares of the values of a label.`,
		Example: `  headwater report headwater.pb.gz
  headwater report --tree --focus '^Svc' headwater.pb.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.print(cmd, args[0]); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.top, "top", 20, "number of functions to show, most self first")
	flags.BoolVar(&f.tree, "tree", false, "show functions below their callers; hide subtrees below 0.5 %")
	flags.BoolVar(&f.folded, "folded", false,
		"show one line per stack, with its number of samples, or its value if the values of samples differ")
	flags.StringVar(&f.by, "by", "", "show the shares of the values of this label, such as cpu, numa_node or thread_name")
	flags.StringVar(&f.focus, "focus", "", "only samples with a function, file or binary that matches this regexp")
	flags.StringVar(&f.ignore, "ignore", "", "only samples without a function, file or binary that matches this regexp")
	cmd.MarkFlagsMutuallyExclusive("by", "tree", "folded")
	cmd.MarkFlagsMutuallyExclusive("top", "tree", "folded")
	return cmd
}

func (f *reportFlags) print(cmd *cobra.Command, path string) error {
	focus, err := expression("focus", f.focus)
	if err != nil {
		return err
	}
	ignore, err := expression("ignore", f.ignore)
	if err != nil {
		return err
	}
	if f.top < 1 {
		return errors.New("--top must be positive")
	}
	p, err := profilefile.Read(cmd.Context(), path, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if err := export.Select(p, focus, ignore); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case f.by != "":
		return export.ByLabel(cmd.OutOrStdout(), p, f.by, f.top)
	case f.tree:
		return export.Tree(cmd.OutOrStdout(), p)
	case f.folded:
		return export.Folded(cmd.OutOrStdout(), p)
	default:
		return export.Top(cmd.OutOrStdout(), p, f.top)
	}
}

// expression compiles the value of a flag. An empty text gives nil.
func expression(flag, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return compiled, nil
}
