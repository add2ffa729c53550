package docs

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli"
)

const cliPage = "docs/reference/cli.md"

// TestCommands: the page of commands has a section for each, with its flags and their defaults.
func TestCommands(t *testing.T) {
	want := map[string]bool{}
	for _, command := range cli.Command().Commands() {
		if command.Hidden || command.Name() == "help" {
			continue
		}
		want["headwater "+command.Name()] = true
		requireFacts(t, cliPage, "flags of "+command.Name(), helpOf(command))
	}
	got := map[string]bool{}
	for _, h := range readDocument(t, cliPage).headings[1:] {
		got[h.text] = true
	}
	require.Equal(t, want, got)
}

// helpOf returns the help of a command as Markdown.
func helpOf(command *cobra.Command) string {
	text := command.Short + ".\n"
	var rows string
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		usage := strings.ToUpper(f.Usage[:1]) + f.Usage[1:]
		rows += row(name, "`"+f.DefValue+"`", usage)
	})
	if rows != "" {
		text += "\n" + row("flag", "default", "meaning") + "|---|---|---|\n" + rows
	}
	return text
}

// find returns the command that the words after headwater name, and the rest.
func find(words []string) (*cobra.Command, []string, error) {
	return cli.Command().Find(words)
}
