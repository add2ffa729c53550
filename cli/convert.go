package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/convert"
	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/river"
)

func convertCommand() *cobra.Command {
	var server, output string
	var profilingOnly bool
	cmd := &cobra.Command{
		Use:   "convert [flags] FILE | -- PROGRAM FLAGS...",
		Short: "Convert the configuration of another profiler",
		Long: `Writes a River configuration that does the same as the flags of OpenTelemetry's ebpf-profiler
or of parca-agent. Flags without an equivalent in Headwater are listed on standard error, one a
line.

A FILE that ends in .yaml is the configuration of an OpenTelemetry collector. Its receiver profiling
is converted. All other keys are listed with file and line.

Any other FILE is a configuration of Grafana Agent in flow mode, or of Alloy. If Headwater has all
components in it, the configuration is written unchanged. Otherwise the error names the file, the
line and the unknown component. With --profiling-only, only the part that makes profiles is written.
headwater run has the flags of alloy run and grafana-agent-flow run.

The exit code is 0 if every flag was converted or listed, 1 if a flag is unknown or Headwater cannot
run FILE, and 2 if nothing could be converted.`,
		Example: `  headwater convert -- ebpf-profiler -collection-agent=otel:4317 -samples-per-second=99
  headwater convert --server http://pyroscope:4040 -o h.river -- parca-agent --node=web1
  headwater convert collector.yaml
  headwater convert config.alloy`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.ArgsLenAtDash() == 0:
				return convertFlags(cmd, args, server, output)
			case len(args) > 1:
				return exitError{errors.New("name one FILE, or -- followed by a program and its flags"), exitUsage}
			case slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(args[0])):
				return convertYAML(cmd, args[0], server, output)
			}
			if profilingOnly {
				return convertProfilingPart(cmd, args[0], output)
			}
			return convertFile(cmd, args[0], output)
		},
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:4040", "URL of the Pyroscope server to push to")
	cmd.Flags().StringVarP(&output, "output", "o", "-", "file to write, - for standard output")
	cmd.Flags().BoolVar(&profilingOnly, profilingOnlyFlag, false, profilingOnlyUsage)
	return cmd
}

// convertFlags converts the command line of another profiler.
func convertFlags(cmd *cobra.Command, args []string, server, output string) error {
	if err := write.CheckURL(server); err != nil {
		return exitError{fmt.Errorf("--server: %w", err), exitUsage}
	}
	made, err := convert.Flags(args[0], server, args[1:])
	if err != nil {
		return exitError{err, exitUsage}
	}
	unknown := fmt.Sprintf("headwater convert does not know this flag of %s, and has left it out", args[0])
	return writeResult(cmd, made, output, "flag", unknown)
}

// convertYAML converts the configuration of an OpenTelemetry collector.
func convertYAML(cmd *cobra.Command, file, server, output string) error {
	if err := write.CheckURL(server); err != nil {
		return exitError{fmt.Errorf("--server: %w", err), exitUsage}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return exitError{err, exitUsage}
	}
	made, err := convert.YAML(file, server, text)
	if err != nil {
		return exitError{err, exitUsage}
	}
	const unknown = "headwater convert does not know this key of the receiver, and has left it out"
	return writeResult(cmd, made, output, "key", unknown)
}

// writeResult writes a configuration, and reports the flags or keys without an equivalent. thing is the kind of input:
// a flag or a key.
func writeResult(cmd *cobra.Command, made *convert.Result, output, thing, unknown string) error {
	text, err := river.Format("made", []byte(made.River))
	if err != nil {
		return exitError{err, exitUsage}
	}
	if err := writeConverted(cmd.OutOrStdout(), output, text); err != nil {
		return err
	}
	for _, note := range made.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	for _, flag := range made.Unknown {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", flag, unknown)
	}
	if n := len(made.Unknown); n > 0 {
		return fmt.Errorf("%s not known", plural(n, thing+" is", thing+"s are"))
	}
	return nil
}

// convertFile checks a configuration that is already in River.
func convertFile(cmd *cobra.Command, file, output string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return exitError{err, exitUsage}
	}
	if _, err := validate(file, river.Options{Offline: true}); err != nil {
		printLoadError(cmd.ErrOrStderr(), err)
		return fmt.Errorf("Headwater cannot run %s unchanged", file)
	}
	if err := writeConverted(cmd.OutOrStdout(), output, text); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s runs unchanged: headwater run %s\n", file, file)
	return nil
}

// convertProfilingPart writes the part of a configuration in River that makes profiles.
func convertProfilingPart(cmd *cobra.Command, file, output string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return exitError{err, exitUsage}
	}
	var findings []river.Finding
	err = loaded(river.Options{Offline: true, ProfilingOnly: true}, func(r *river.Runtime) error {
		if err := r.LoadPath(file); err != nil {
			return err
		}
		findings = r.Findings()
		text, err = river.Format(file, r.ProfilingText(file, text))
		return err
	})
	if err != nil {
		printLoadError(cmd.ErrOrStderr(), err)
		return fmt.Errorf("the part of %s that makes profiles does not run here", file)
	}
	if err := writeConverted(cmd.OutOrStdout(), output, text); err != nil {
		return err
	}
	findings = slices.DeleteFunc(findings, func(f river.Finding) bool { return f.Kind != river.FindingLeftOut })
	printFindings(cmd.ErrOrStderr(), findings)
	if slices.ContainsFunc(findings, func(f river.Finding) bool { return f.At.Filename != file }) {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"Modules in other files have more than this part: run the result with --profiling-only")
	}
	return nil
}

func writeConverted(stdout io.Writer, output string, text []byte) (err error) {
	if output == "-" {
		_, err = stdout.Write(text)
	} else {
		err = os.WriteFile(output, text, 0o644)
	}
	if err != nil {
		return exitError{err, exitUsage}
	}
	return nil
}
