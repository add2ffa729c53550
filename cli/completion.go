package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/containers"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// completionCommand replaces cobra's own command, whose help is long and whose errors have another exit code.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a shell script that completes commands, flags, PIDs and containers",
		Long: `Writes a completion script for a shell to standard output. After the shell has read the script,
Tab completes commands, flags, PIDs with their command lines, and names of containers. bash needs
the package bash-completion of the distribution.`,
		Example: `  headwater completion bash | sudo tee /etc/bash_completion.d/headwater >/dev/null
  headwater completion zsh | sudo tee /usr/local/share/zsh/site-functions/_headwater >/dev/null
  headwater completion fish >~/.config/fish/completions/headwater.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			out, root := cmd.OutOrStdout(), cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}

// completeProcesses lets the shell complete flags that take a list of PIDs, separated by commas.
func completeProcesses(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		err := cmd.RegisterFlagCompletionFunc(name,
			func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return processes(begun), cobra.ShellCompDirectiveNoFileComp
			})
		if err != nil {
			panic(err) // no such flag: every test of the command line would fail
		}
	}
}

// completeWords lets the shell complete a flag that takes one of words.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	all := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, all); err != nil {
		panic(err) // as above
	}
}

// completeSelection lets the shell complete the flags of samplingFlags that select samples.
func completeSelection(cmd *cobra.Command) {
	completeProcesses(cmd, "pid", "tid")
	completeContainers(cmd)
}

// completeProcess completes the PID argument of a command.
func completeProcess(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return processes(begun), cobra.ShellCompDirectiveNoFileComp
}

// processes lists the processes of this host that have a command line, newest first, as completions of the last element
// of the comma-separated list that the user has started to type.
func processes(begun string) (found []string) {
	const most = 60 // characters of a command
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	pids, _ := procfs.Default.PIDs() // without a list there are no completions
	slices.Sort(pids)
	for _, pid := range slices.Backward(pids) {
		word := before + strconv.FormatUint(uint64(pid), 10)
		if !strings.HasPrefix(word, begun) {
			continue
		}
		command, err := procfs.Default.Cmdline(pid)
		if command = strings.Join(strings.Fields(command), " "); err != nil || command == "" {
			continue // it has ended, or is a kernel thread
		}
		if letters := []rune(command); len(letters) > most {
			command = string(letters[:most-1]) + "…"
		}
		found = append(found, cobra.CompletionWithDesc(word, command))
	}
	return found
}

// completeContainers lets the shell complete --container.
func completeContainers(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("container",
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			ctx := cmd.Context()
			if ctx == nil {
				ctx = context.Background()
			}
			all, _ := containers.Running(ctx) // without a list there are no completions
			return offered(all), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // as above
	}
}

// offered lists the names and IDs of containers as completions.
func offered(all []containers.Container) (found []string) {
	const digits = 12 // engines show this many digits of an ID
	for _, c := range all {
		id := c.ID[:min(len(c.ID), digits)]
		for _, name := range c.Names {
			found = append(found, cobra.CompletionWithDesc(name, "container "+id))
		}
		found = append(found, cobra.CompletionWithDesc(id, fmt.Sprintf("container %s", strings.Join(c.Names, ", "))))
	}
	return found
}
