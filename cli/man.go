package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:   "man [flags] [COMMAND]",
		Short: "Write manual pages",
		Long: `Writes the manual page of COMMAND to standard output, in man's own format. Without COMMAND, it
writes the page of headwater itself. With --output, it writes the pages of all commands into a
folder, and creates the folder if it does not exist.`,
		Example: `  headwater man record | man -l -
  sudo headwater man -o /usr/local/share/man/man1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writeManual(cmd, folder, args); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVarP(&folder, "output", "o", "", "write the pages of all commands into this folder")
	return cmd
}

// commandNames lists the commands of a program, with their descriptions.
func commandNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
		}
	}
	return names
}

func writeManual(cmd *cobra.Command, folder string, args []string) error {
	root := cmd.Root()
	root.DisableAutoGenTag = true // the tag contains the date
	header := &doc.GenManHeader{Section: "1", Source: "headwater " + readVersion().Version, Manual: "Headwater"}
	if folder == "" {
		of, _, err := root.Find(args)
		if err != nil || len(args) > 0 && of == root {
			return fmt.Errorf("there is no command %q", args[0])
		}
		return doc.GenMan(of, header, cmd.OutOrStdout())
	}
	if len(args) > 0 {
		return fmt.Errorf("--output writes the pages of all commands: remove %s", args[0])
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return doc.GenManTree(root, header, folder)
}
