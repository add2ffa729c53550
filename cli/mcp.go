package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/mcpserver"
	"github.com/headwater/headwater/cli/internal/stacks"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/flame/compare"
)

// mcpFlags are the flags of the command mcp.
type mcpFlags struct {
	files string
	urls  []string
}

func mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve profiles to a language model by the Model Context Protocol (MCP)",
		Long: `Answers the Model Context Protocol on standard input and output. A client, such as an editor or a
chat, starts this command. The client's language model calls the tools top, summary, path_through,
record, diff and stack. Each answer states how complete its data is.

The tools only read: they write nothing to disk and start no program. A recording takes 30 s at
most; the newest 8 recordings stay in memory. Files and URLs are read only if --files and --url
allow it, and only profiles are shown. The client's user sees the answers of the tools: names of
processes and functions, command lines, and the places where threads wait.

The command ends when its client closes standard input.`,
		Example: `  headwater mcp
  headwater mcp --files /var/lib/profiles --url http://127.0.0.1:12345/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.serveMCP(cmd); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.files, "files", "", "allow reading profiles in this folder and below it")
	cmd.Flags().StringSliceVar(&f.urls, "url", nil, "allow reading profiles from URLs that start with this URL")
	return cmd
}

func (f *mcpFlags) serveMCP(cmd *cobra.Command) error {
	for _, text := range f.urls {
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--url: %q is no http or https URL", text)
		}
	}
	o := mcpserver.Options{Version: version(), URLs: f.urls, Record: recordForModel, Diff: diffForModel,
		Stacks: stacksForModel}
	if f.files != "" {
		root, err := os.OpenRoot(f.files)
		if err != nil {
			return fmt.Errorf("--files: %w", err)
		}
		defer root.Close()
		o.Files = root
	}
	if isTerminal(cmd.OutOrStdout()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "an MCP client starts headwater mcp: add it to the client's configuration")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := mcpserver.New(o).Run(ctx, &mcp.StdioTransport{MaxLineLength: mcpserver.MaxMessage})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// recordForModel makes a recording.
func recordForModel(ctx context.Context, pid uint32, rate int, during time.Duration) (*profile.Profile, error) {
	var what record.Selection
	if pid != 0 {
		what.PIDs = []uint32{pid}
	}
	r, err := recordBriefly(ctx, what, rate, during)
	if err != nil {
		return nil, err
	}
	return r.Profile, nil
}

// diffForModel writes a comparison like headwater diff.
func diffForModel(w io.Writer, r *compare.Report, names []string, most int) error {
	f := diffFlags{top: most, atLeast: compare.DefaultOptions().AtLeast}
	return f.print(w, r, names)
}

// stacksForModel writes stacks like headwater stack, and the number of complete ones.
func stacksForModel(ctx context.Context, w io.Writer, pid uint32) error {
	pid, tid, err := stacks.Resolve(fmt.Sprint(pid))
	if err != nil {
		return err
	}
	report, err := stacks.Take(ctx, pid, tid, true)
	if err != nil {
		return err
	}
	whole := 0
	for _, t := range report.Threads {
		if t.Whole {
			whole++
		}
	}
	if _, err := fmt.Fprintf(w, "completeness: %d of %d stacks are whole\n", whole, len(report.Threads)); err != nil {
		return err
	}
	return report.WriteText(w, true)
}
