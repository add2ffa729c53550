// Headwater profiles a Linux host with eBPF. It is configured in Grafana's River
// language and sends its profiles to Grafana Pyroscope.
package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func main() {
	if err := rootCommand().Execute(); err != nil {
		os.Exit(1) // cobra has printed the error
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:          "headwater",
		Short:        "An eBPF profiler configured in River",
		Version:      version(),
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(runCommand(), fmtCommand(), validateCommand(), targetsCommand(), verifyCommand(), unwindTableCommand())
	return root
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
