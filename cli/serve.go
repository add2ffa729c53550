package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/cli/internal/servepage"
)

// serveFlags are the flags of the command serve.
type serveFlags struct {
	listen string
	public bool
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags] FILE...",
		Short: "Show profile files as flame graphs in a browser",
		Long: `Serves a web page with the flame graph of each file, and downloads in every format of headwater
record. The files are in pprof's format, from any program, or folded stacks. The page reloads when
its file changes.

The page has no password. Only this host can open it, unless --listen names another address and
--public allows it. Ctrl-C ends the server at once.`,
		Example: `  headwater serve headwater.pb.gz
  headwater serve --listen 127.0.0.1:8080 before.pb.gz after.pb.gz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.serveFiles(cmd, args); err != nil {
				return exitError{err, exitUsage}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:4041", "address and port to serve at; port 0 picks a free port")
	cmd.Flags().BoolVar(&f.public, "public", false, "allow an address that other hosts can reach")
	return cmd
}

func (f *serveFlags) serveFiles(cmd *cobra.Command, files []string) error {
	if err := f.check(); err != nil {
		return err
	}
	for _, name := range files { // checked only now: later the files may come and go
		if err := servepage.CheckFile(name); err != nil {
			return err
		}
		if _, err := profilefile.Read(cmd.Context(), name, nil); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", f.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program listens at %s: choose another address with --listen", f.listen)
	}
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{
		Handler: servepage.New(files, f.listen), ReadHeaderTimeout: 10 * time.Second,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // closing can be abrupt
	fmt.Fprintf(cmd.ErrOrStderr(), "http://%s/    (Ctrl-C ends)\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// check refuses addresses that other hosts can reach, unless --public allows them.
func (f *serveFlags) check() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return fmt.Errorf("--listen: want an address and a port such as 127.0.0.1:4041, got %q", f.listen)
	}
	ip := net.ParseIP(host)
	if !f.public && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen %s: other hosts can reach it without a password; --public allows it", f.listen)
	}
	return nil
}
