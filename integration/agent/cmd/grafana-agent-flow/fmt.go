package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/grafana/river/diag"
	"github.com/grafana/river/parser"
	"github.com/grafana/river/printer"
	"github.com/spf13/cobra"

	"github.com/grafana/agent/component/prometheus/remotewrite"
)

func fmtCommand() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:          "fmt [flags] file",
		Aliases:      []string{"format"},
		Short:        "Format a River file",
		Long:         "Formats a River file, or standard input where the file is - or missing, and prints the result.",
		Args:         cobra.MaximumNArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "-"
			if len(args) == 1 {
				name = args[0]
			}
			err := formatFile(cmd.InOrStdin(), cmd.OutOrStdout(), name, write)
			var diags diag.Diagnostics
			if !errors.As(err, &diags) {
				return err
			}
			for _, d := range diags {
				fmt.Fprintln(cmd.ErrOrStderr(), d)
			}
			return errors.New("encountered errors during formatting")
		},
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "write the result to the file instead of printing it")
	return cmd
}

func formatFile(stdin io.Reader, stdout io.Writer, name string, write bool) error {
	if name == "-" {
		if write {
			return errors.New("cannot use -w with standard input")
		}
		text, err := io.ReadAll(stdin)
		if err != nil {
			return err
		}
		formatted, err := format("<stdin>", text)
		if err == nil {
			_, err = stdout.Write(formatted)
		}
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("cannot format a directory")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	formatted, err := format(name, text)
	switch {
	case err != nil:
		return err
	case write:
		return os.WriteFile(name, formatted, info.Mode().Perm())
	default:
		_, err = stdout.Write(formatted)
		return err
	}
}

func format(name string, text []byte) ([]byte, error) {
	file, err := parser.ParseFile(name, text)
	if err != nil {
		return nil, err
	}
	var formatted bytes.Buffer
	if err := printer.Fprint(&formatted, file); err != nil {
		return nil, err
	}
	formatted.WriteByte('\n')
	return formatted.Bytes(), nil
}

func toolsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tools", Short: "Tools for single components"}
	remoteWrite := &cobra.Command{Use: "prometheus.remote_write", Short: "Tools for prometheus.remote_write"}
	remotewrite.InstallTools(remoteWrite)
	cmd.AddCommand(remoteWrite)
	return cmd
}
