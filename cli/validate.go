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
	"github.com/headwater/headwater/flame/printable"
	"github.com/headwater/headwater/river"
)

func validateCommand() *cobra.Command {
	var resolve, profilingOnly bool
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check configurations without running them",
		Long: `Checks each file or folder, starts nothing, and sends nothing to any other machine: no
request, no clone, no secret. It reads files of this machine. What it could not look at
for that reason, arguments without effect, and environment variables that are not set here
are listed. None of these is a mistake.

With --resolve, it also does what run does before it starts anything: it asks web servers,
Git repositories and clusters. A missing answer is then a mistake.

With --profiling-only, components of Alloy that Headwater does not have, for metrics, logs
and traces, are left out, with the blocks that only serve them. They are listed.

The exit code is 0 if all configurations are valid, and 1 if one is not.`,
		Example: `  headwater validate config.river
  headwater validate --resolve config.river`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bad := 0
			for _, path := range args {
				findings, err := validate(path, river.Options{Offline: !resolve, ProfilingOnly: profilingOnly})
				if err != nil {
					bad++
					printLoadError(cmd.ErrOrStderr(), err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", path)
				printFindings(cmd.OutOrStdout(), findings)
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d configurations are not valid", bad, len(args))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&resolve, "resolve", false,
		"ask the web servers, repositories and clusters that run asks at its start")
	cmd.Flags().BoolVar(&profilingOnly, profilingOnlyFlag, false, profilingOnlyUsage)
	return cmd
}

const (
	profilingOnlyFlag  = "profiling-only"
	profilingOnlyUsage = "leave out the components that have no part in profiling"
)

// validate loads a configuration without running it.
func validate(path string, options river.Options) ([]river.Finding, error) {
	var findings []river.Finding
	err := loaded(options, func(r *river.Runtime) error {
		err := r.LoadPath(path)
		findings = r.Findings()
		return err
	})
	return findings, err
}

// loaded calls use with a runtime that does not run.
func loaded(options river.Options, use func(*river.Runtime) error) (err error) {
	if options.Registry, err = all.Registry(); err != nil {
		return err
	}
	if options.DataPath, err = os.MkdirTemp("", "headwater-validate-"); err != nil {
		return err
	}
	defer os.RemoveAll(options.DataPath)
	options.Logger = river.NewLogger(io.Discard)
	return use(river.New(options))
}

// printFindings prints a list for each kind of finding.
func printFindings(w io.Writer, findings []river.Finding) {
	for _, list := range []struct {
		title string
		kind  river.FindingKind
	}{
		{"not looked at, or not completely", river.FindingUnseen},
		{"without the effect that it asks for", river.FindingWarning},
		{"environment variable that is not set here", river.FindingUnset},
		{"left out, for it has no part in profiling", river.FindingLeftOut},
	} {
		title := "  " + list.title + ":\n"
		for _, f := range findings {
			if f.Kind != list.kind {
				continue
			}
			fmt.Fprintf(w, "%s    %s: %s", title, f.At, f.Subject)
			if title = ""; f.Text != "" {
				fmt.Fprintf(w, ": %s", f.Text)
			}
			fmt.Fprintln(w)
		}
	}
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
