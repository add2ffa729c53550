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

	"github.com/headwater/headwater/cli/internal/fresh"
	"github.com/headwater/headwater/cli/internal/mcpserver"
	"github.com/headwater/headwater/cli/internal/stacks"
	"github.com/headwater/headwater/ebpf/compare"
	"github.com/headwater/headwater/ebpf/record"
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
		Short: "Let a language model look at what uses the CPU, by the Model Context Protocol",
		Long: `Answers the Model Context Protocol on standard input and output: a client, such as an
editor or a chat, starts this command and lets its language model call the tools top, summary,
path_through, record, diff and stack. Each answer states how complete it is.

The tools only look. Nothing is written to disk, and no program is started. A recording takes
30 s at most; the newest 8 are kept in memory. Files and URLs are read only where --files and
--url allow it, and only profiles are shown. Whoever uses the client sees what the tools
show: names of processes and functions, command lines, and where threads wait.

The command ends when its client closes standard input.`,
		Example: `  headwater mcp
  headwater mcp --files /var/lib/profiles --url http://127.0.0.1:12345/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.run(cmd); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.files, "files", "", "let profiles in this folder, and below it, be read")
	cmd.Flags().StringSliceVar(&f.urls, "url", nil, "let profiles be read from URLs below this one")
	return cmd
}

func (f *mcpFlags) run(cmd *cobra.Command) error {
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
		fmt.Fprintln(cmd.ErrOrStderr(), "headwater mcp is for programs: name it in the configuration of an MCP client")
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
	r, err := fresh.Record(ctx, what, rate, during)
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
