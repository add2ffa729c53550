package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fatih/color"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/agent/pkg/config/instrumentation"
	"github.com/grafana/agent/pkg/flow"
	"github.com/grafana/agent/pkg/flow/logging"
	"github.com/grafana/agent/pkg/flow/tracing"
	"github.com/grafana/agent/service"
	"github.com/grafana/agent/service/cluster"
	httpservice "github.com/grafana/agent/service/http"
	"github.com/grafana/agent/service/labelstore"
	otelservice "github.com/grafana/agent/service/otel"
	"github.com/grafana/agent/service/remotecfg"
	uiservice "github.com/grafana/agent/service/ui"
	"github.com/grafana/ckit/peer"
	"github.com/grafana/river/diag"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
)

func runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] path",
		Short: "Run a configuration",
		Long: `Runs the components of a River file, or of all *.river files of a folder, until
it is interrupted. SIGHUP and GET or POST /-/reload load the configuration again.`,
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return run(ctx, flags, args[0])
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

// program is the Agent's runtime, with the objects that loading a configuration needs.
type program struct {
	path    string
	logger  log.Logger
	flow    *flow.Flow
	cluster *cluster.Service
}

func run(ctx context.Context, flags runFlags, path string) error {
	logger, err := logging.NewDeferred(os.Stderr) // keeps lines until the logging block is known
	if err != nil {
		return fmt.Errorf("making the logger: %w", err)
	}
	tracer, err := tracing.New(tracing.DefaultOptions)
	if err != nil {
		return fmt.Errorf("making the tracer: %w", err)
	}
	otel.SetTracerProvider(tracer)

	p := &program{path: path, logger: logger}
	services, err := p.services(flags, logger, tracer)
	if err != nil {
		return err
	}
	p.flow = flow.New(flow.Options{
		Logger:   logger,
		Tracer:   tracer,
		DataPath: flags.storagePath,
		Reg:      prometheus.DefaultRegisterer,
		Services: services,
	})

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { p.flow.Run(ctx) })
	running.Go(func() {
		if err := tracer.Run(ctx); err != nil {
			level.Error(logger).Log("msg", "the tracer ended", "err", err)
		}
	})
	return p.runConfig(ctx)
}

// services returns the services that components share, in the order in which the Agent starts them.
func (p *program) services(flags runFlags, logger *logging.Logger, tracer *tracing.Tracer) ([]service.Service, error) {
	metrics := prometheus.DefaultRegisterer
	var err error
	if p.cluster, err = newCluster(flags.cluster, flags.listenAddr, logger, metrics, tracer); err != nil {
		return nil, err
	}
	remote, err := remotecfg.New(remotecfg.Options{Logger: log.With(logger, "service", "remotecfg"),
		StoragePath: flags.storagePath})
	if err != nil {
		return nil, fmt.Errorf("making the service remotecfg: %w", err)
	}
	collector := otelservice.New(logger)
	if collector == nil {
		return nil, errors.New("making the service otel failed")
	}
	http := httpservice.New(httpservice.Options{
		Logger:           log.With(logger, "service", "http"),
		Tracer:           tracer,
		Gatherer:         prometheus.DefaultGatherer,
		ReadyFunc:        func() bool { return p.flow.Ready() },
		ReloadFunc:       p.load,
		HTTPListenAddr:   flags.listenAddr,
		MemoryListenAddr: flags.memoryAddr,
		EnablePProf:      flags.pprof,
	})
	return []service.Service{
		http,
		uiservice.New(uiservice.Options{UIPrefix: flags.uiPrefix}),
		p.cluster,
		collector,
		labelstore.New(logger, metrics),
		remote,
	}, nil
}

// runConfig loads the configuration and, at every SIGHUP until ctx is done, loads
// it again.
func (p *program) runConfig(ctx context.Context) error {
	if source, err := p.load(); err != nil {
		return explain(source, err)
	}
	if err := p.cluster.ChangeState(ctx, peer.StateParticipant); err != nil {
		return fmt.Errorf("taking part in the cluster: %w", err)
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "interrupt received")
			return nil
		case <-hangups:
			if _, err := p.load(); err != nil {
				level.Error(p.logger).Log("msg", "failed to reload config", "err", err)
			} else {
				level.Info(p.logger).Log("msg", "config reloaded")
			}
		}
	}
}

// load reads the configuration and applies it. The source is nil if it
// cannot be read or parsed.
func (p *program) load() (*flow.Source, error) {
	source, err := p.read()
	if err != nil {
		err = fmt.Errorf("reading config path %q: %w", p.path, err)
	} else {
		err = p.flow.LoadSource(source, nil)
	}
	instrumentation.InstrumentSHA256(source.SHA256())
	instrumentation.InstrumentLoad(err == nil)
	return source, err
}

func (p *program) read() (*flow.Source, error) {
	info, err := os.Stat(p.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		text, err := os.ReadFile(p.path)
		if err != nil {
			return nil, err
		}
		instrumentation.InstrumentConfig(text)
		return flow.ParseSource(p.path, text)
	}
	names, err := filepath.Glob(filepath.Join(p.path, "*.river"))
	if err != nil {
		return nil, err
	}
	texts := make(map[string][]byte, len(names))
	for _, name := range names {
		if texts[name], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return flow.ParseSources(texts)
}

// explain prints the errors in a configuration.
func explain(source *flow.Source, err error) error {
	var diags diag.Diagnostics
	if !errors.As(err, &diags) {
		return err
	}
	printer := diag.NewPrinter(diag.PrinterConfig{Color: !color.NoColor, ContextLinesBefore: 1, ContextLinesAfter: 1})
	_ = printer.Fprint(os.Stderr, source.RawConfigs(), diags) // there is no other place to report the error
	fmt.Fprintln(os.Stderr)
	return errors.New("could not perform the initial load successfully")
}
