package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/spf13/cobra"

	"github.com/headwater/headwater/component/all"
	"github.com/headwater/headwater/ebpf/host/footprint"
	"github.com/headwater/headwater/ebpf/host/footprint/early"
	"github.com/headwater/headwater/river"
)

func runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] PATH",
		Short: "Run a configuration",
		Long: `Runs the components of a River file, or of all *.river and *.alloy files of a folder, until
SIGINT or SIGTERM. It then ends within 5 seconds. Profiles that no server has taken by then stay in
a queue on disk, or are dropped, and a message counts them.

SIGHUP, and GET or POST /-/reload, load the configuration again. If that fails, the previous
configuration keeps running.`,
		Example: `  sudo headwater run config.river
  sudo headwater run --server.http.listen-addr 127.0.0.1:8080 /etc/headwater`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			ctx, cancel := interruptible(cmd.ErrOrStderr())
			defer cancel()
			p, err := newProgram(flags, args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if given := withoutEffect(cmd.Flags()); len(given) > 0 {
				level.Warn(p.logger).Log("msg", "flags accepted without effect", "flags", strings.Join(given, " "))
			}
			return p.runUntilSignal(ctx)
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels. The second signal ends the process at once,
// by its default action.
func interruptible(stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			fmt.Fprintln(stderr, "interrupt received")
			cancel()
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, cancel
}

// program is one run of headwater run.
type program struct {
	path     string
	stderr   io.Writer
	logger   *river.Logger
	runtime  *river.Runtime
	listener net.Listener
	server   *http.Server
}

// newProgram does the steps that can fail before the configuration is read.
func newProgram(flags runFlags, path string, stderr io.Writer) (*program, error) {
	registry, err := all.Registry()
	if err != nil {
		return nil, err
	}
	listener, err := listen(flags.listenAddr)
	if err != nil {
		return nil, err
	}
	metrics := river.ProcessMetrics()
	p := &program{path: path, stderr: stderr, listener: listener, logger: river.NewLogger(stderr)}
	p.runtime = river.New(river.Options{
		Registry: registry,
		Logger:   p.logger,
		DataPath: flags.storagePath,

		ProfilingOnly: flags.profilingOnly,

		Registerer: metrics,
	})
	p.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          stdlog.New(log.NewStdlibAdapter(level.Warn(p.logger)), "", 0),
		Handler: p.runtime.Handler(river.HTTPOptions{
			Gatherer: metrics,
			Reload:   p.reload,
			PProf:    flags.pprof,
			UIPrefix: flags.uiPrefix,

			ListenAddr:   flags.listenAddr,
			AllowedHosts: flags.allowedHosts,

			RequireHealthy: flags.healthy,
		}),
	}
	return p, nil
}

// listen opens the HTTP address. If another program uses it, the error suggests another address.
func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		const advice = "another program listens on it; choose another address with --server.http.listen-addr"
		return nil, fmt.Errorf("cannot serve HTTP on %s: %s", addr, advice)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot serve HTTP on %s: %w", addr, err)
	}
	return listener, nil
}

// runUntilSignal loads the configuration and keeps it running until ctx is done. It serves HTTP from before the first
// component starts until after the last one has stopped.
func (p *program) runUntilSignal(ctx context.Context) error {
	runtimeCtx, stopRuntime := context.WithCancel(ctx)
	var running sync.WaitGroup
	if err := footprint.Lower(); err != nil {
		level.Debug(p.logger).Log("msg", "cannot raise the priority of this process: it may run late", "err", err)
	}
	if early.Err != nil {
		level.Debug(p.logger).Log("msg", "unused pages of the executable stay resident", "err", early.Err)
	}
	running.Go(p.serve)
	defer running.Wait()
	defer p.closeServer()

	components := make(chan struct{})
	go func() {
		defer close(components)
		p.runtime.Run(runtimeCtx)
	}()
	defer p.waitFor(components)
	defer stopRuntime()

	if err := loadUntil(ctx, p.firstLoad); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	running.Go(func() {
		footprint.ReleaseMemory(ctx, footprint.LittleCPU, func(err error) {
			level.Debug(p.logger).Log("msg", "memory that only the start needed stays resident", "err", err)
		})
	})
	level.Info(p.logger).Log("msg", "running", "config", p.path,
		"http", p.runtime.Scheme()+"://"+p.listener.Addr().String()+"/")
	p.reloadOnSignals(ctx)
	return nil
}

// loadUntil loads a configuration, and returns the error. It returns early when ctx is done: a component that asks
// another machine when it is built may get no answer, and the program ends all the same.
func loadUntil(ctx context.Context, load func() error) error {
	loaded := make(chan error, 1)
	go func() { loaded <- load() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-loaded:
		return err
	}
}

// stopPatience bounds the time that the components and an unfinished load get to stop.
const stopPatience = river.DefaultStopTimeout + 1200*time.Millisecond

// waitFor waits until the components have stopped.
func (p *program) waitFor(components <-chan struct{}) {
	select {
	case <-components:
	case <-time.After(stopPatience):
		level.Error(p.logger).Log("msg", "a configuration is still being loaded; the program ends without it",
			"waited", stopPatience)
	}
}

func (p *program) firstLoad() error {
	err := p.runtime.LoadPath(p.path)
	var failed *river.LoadError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		printLoadError(p.stderr, err)
		return errors.New("could not perform the initial load successfully")
	default:
		return fmt.Errorf("reading config path %q: %w", p.path, err)
	}
}

func (p *program) reloadOnSignals(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			_ = loadUntil(ctx, p.reload) // logged
		}
	}
}

// reload loads the configuration again and logs the result.
func (p *program) reload() error {
	err := p.runtime.LoadPath(p.path)
	if err == nil {
		level.Info(p.logger).Log("msg", "config reloaded")
		return nil
	}
	consequence := "the previous configuration keeps running"
	var failed *river.LoadError
	if errors.As(err, &failed) {
		consequence = failed.Consequence()
	} else {
		err = fmt.Errorf("reading config path %q: %w", p.path, err)
	}
	level.Error(p.logger).Log("msg", "failed to reload config", "err", err, "consequence", consequence)
	return err
}

func (p *program) serve() {
	if err := p.server.Serve(p.runtime.Listener(p.listener)); !errors.Is(err, http.ErrServerClosed) {
		level.Error(p.logger).Log("msg", "HTTP server ended", "err", err)
	}
}

// closeServer gives requests in flight a moment to finish, then closes their connections.
func (p *program) closeServer() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close() // the process ends; the error does not matter
	}
}
