// Package cli is the command line of headwater. Each command is a file: it declares
// flags, checks what the user wrote, calls the packages that do the work, and prints.
package cli

import (
	"errors"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Execute runs the command that the arguments of the process name, prints its error
// if it fails, and returns the exit code.
func Execute() int {
	return exitCode(Command().Execute()) // cobra prints the error
}

// exitError is an error of a command that ends with another exit code than 1.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e := (exitError{}); errors.As(err, &e) {
		return e.code
	}
	return 1
}

// Command returns headwater with all its commands.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:     "headwater",
		Short:   "An eBPF profiler configured in River",
		Version: version(),
		Example: `  sudo headwater record -p 4711 -d 10
  sudo headwater run config.river`,
		SilenceUsage: true,
		Args:         knownCommand,
		RunE:         func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(commands()...)
	explainUsage(root)
	return root
}

// commands lists the commands, each of which has a file.
func commands() []*cobra.Command {
	return []*cobra.Command{
		runCommand(),
		recordCommand(),
		topCommand(),
		reportCommand(),
		summaryCommand(),
		mcpCommand(),
		serveCommand(),
		scriptCommand(),
		fmtCommand(),
		validateCommand(),
		targetsCommand(),
		stackCommand(),
		verifyCommand(),
		diffCommand(),
		unwindTableCommand(),
		doctorCommand(),
		convertCommand(),
		manCommand(),
		versionCommand(),
	}
}

// version returns the version that the Go toolchain has stamped into the binary:
// the module's, or the commit that it was built from.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := build.Main.Version
	if text == "" {
		text = "(devel)"
	}
	return text + " " + build.GoVersion
}
