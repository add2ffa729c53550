// Package cli is the command line of headwater. Each command has its own file, which declares flags, checks the
// arguments, calls the packages that do the work, and prints the results.
package cli

import (
	"errors"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/flame/printable"
)

// Execute runs the command that the arguments of the process select, prints its error if it fails, and returns the exit
// code.
func Execute() int {
	root := Command()
	root.SetErr(printable.NewWriter(os.Stderr))
	if isTerminal(os.Stdout) { // otherwise the output may be a profile
		root.SetOut(printable.NewWriter(os.Stdout))
	}
	return exitCode(root.Execute()) // cobra prints the error
}

// exitError is the error of a command whose exit code is not 1.
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
		Use:   "headwater",
		Short: "An eBPF profiler configured in River",
		Long: `Headwater shows where the CPU time of a Linux host goes, in whole stacks: native code
without frame pointers, the kernel, Go, Java, Python and JavaScript. Programs need not be
changed or restarted. Profiling takes root, or the capabilities that doctor names.`,
		Version: version(),
		Example: `  headwater doctor                        # what is missing on this host, if anything
  sudo headwater top                      # where CPU time goes, live
  sudo headwater record -p 4711 -d 10     # ten seconds of a process into headwater.pb.gz
  headwater serve headwater.pb.gz         # its flame graph in a browser
  sudo headwater run config.river         # profile always, and send to Pyroscope`,
		SilenceUsage: true,
		Args:         knownCommand,
		RunE:         func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cobra.EnableCommandSorting = false // keep the order of the groups
	for i, group := range groups() {
		id := string(rune('a' + i))
		root.AddGroup(&cobra.Group{ID: id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("d")
	explainUsage(root)
	return root
}

// group is a group of commands in the help text.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups lists the commands.
func groups() []group {
	return []group{
		{"Look at this host now:", []*cobra.Command{
			topCommand(),
			recordCommand(),
			stackCommand(),
			summaryCommand(),
		}},
		{"Look at profiles:", []*cobra.Command{
			reportCommand(),
			serveCommand(),
			diffCommand(),
			scriptCommand(),
			mcpCommand(),
		}},
		{"Profile all the time, by a configuration:", []*cobra.Command{
			runCommand(),
			validateCommand(),
			fmtCommand(),
			targetsCommand(),
			convertCommand(),
		}},
		{"This host and this program:", []*cobra.Command{
			doctorCommand(),
			verifyCommand(),
			unwindTableCommand(),
			completionCommand(),
			manCommand(),
			versionCommand(),
		}},
	}
}

// version returns the version that the Go toolchain has stamped into the binary: the module's version, or the commit of
// the build.
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
