// Command pyroscope is a Pyroscope server for tests: the distributor, one ingester and the querier of Pyroscope in one
// process, on one HTTP port, with storage in one folder. It leaves out the parts that the tests do not use, which are
// two thirds of the code in a build of Pyroscope: the object stores of clouds, the compactor, the store gateway, the
// query frontend and its scheduler, the storage called V2, gossip, tracing, Java recordings, usage statistics, and the
// pages.
//
// It accepts the flags of Pyroscope. Flags for missing parts have no effect.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	dslog "github.com/grafana/dskit/log"
	"github.com/grafana/dskit/middleware"
	"github.com/grafana/dskit/ring"
	"github.com/grafana/dskit/services"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grafana/pyroscope/api/gen/proto/go/ingester/v1/ingesterv1connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	connectapi "github.com/grafana/pyroscope/pkg/api/connect"
	"github.com/grafana/pyroscope/pkg/distributor"
	"github.com/grafana/pyroscope/pkg/featureflags"
	"github.com/grafana/pyroscope/pkg/ingester"
	"github.com/grafana/pyroscope/pkg/ingester/pyroscope"
	"github.com/grafana/pyroscope/pkg/phlaredb"
	pyroscopecontext "github.com/grafana/pyroscope/pkg/pyroscope/context"
	"github.com/grafana/pyroscope/pkg/querier"
	"github.com/grafana/pyroscope/pkg/tenant"
	"github.com/grafana/pyroscope/pkg/util"
	"github.com/grafana/pyroscope/pkg/util/body"
	"github.com/grafana/pyroscope/pkg/util/delayhandler"
	"github.com/grafana/pyroscope/pkg/validation"
)

// config holds the configurations of the server's parts.
type config struct {
	level       dslog.Level
	address     string
	port        int
	multitenant bool
	distributor distributor.Config
	ingester    ingester.Config
	querier     querier.Config
	storage     phlaredb.Config
	limits      validation.Limits
}

// ignored are flags for missing parts of Pyroscope, and prefixes of such flags.
var ignored = []string{"target", "server.", "memberlist.", "query-frontend.", "storage.", "compactor.",
	"blocks-storage.", "self-profiling.", "usage-stats.", "tracing.", "overrides-exporter.", "query-scheduler.",
	"store-gateway."}

func main() {
	c, err := parse(os.Args[1:])
	if err == nil {
		err = run(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pyroscope:", err)
		os.Exit(1)
	}
}

// parse reads the flags.
func parse(args []string) (*config, error) {
	flags := flag.NewFlagSet("pyroscope", flag.ContinueOnError)
	logger := log.NewLogfmtLogger(os.Stderr)
	c := &config{}
	c.level.RegisterFlags(flags)
	flags.StringVar(&c.address, "server.http-listen-address", "", "address of the server")
	flags.IntVar(&c.port, "server.http-listen-port", 4040, "port of the server")
	flags.BoolVar(&c.multitenant, "auth.multitenancy-enabled", false, "requests must have a header X-Scope-OrgID")
	c.distributor.RegisterFlags(flags, logger)
	c.ingester.RegisterFlags(flags)
	c.querier.RegisterFlags(flags)
	c.storage.RegisterFlags(flags)
	c.limits.RegisterFlags(flags)

	known := slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return flags.Lookup(name) == nil && slices.ContainsFunc(ignored, func(prefix string) bool {
			return name == prefix || strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix)
		})
	})
	if err := flags.Parse(known); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	// All parts are in this process and find each other by rings in its memory.
	lifecycler := &c.ingester.LifecyclerConfig
	lifecycler.RingConfig.KVStore.Store = "inmemory"
	lifecycler.RingConfig.ReplicationFactor = 1
	lifecycler.ListenPort = c.port
	c.distributor.DistributorRing.KVStore.Store = "inmemory"
	c.distributor.DistributorRing.ListenPort = c.port
	// Health checks of other processes use gRPC, which this server does not have.
	c.distributor.PoolConfig.HealthCheckIngesters = false
	c.querier.PoolConfig.HealthCheckIngesters = false
	return c, c.limits.Validate()
}

// run serves until a signal ends it, and then writes the data in memory to the folder.
func run(c *config) error {
	logger := log.With(level.NewFilter(log.NewLogfmtLogger(log.NewSyncWriter(os.Stderr)), c.level.Option),
		"ts", log.DefaultTimestampUTC)
	registry := prometheus.DefaultRegisterer
	auth := connect.WithInterceptors(tenant.NewAuthInterceptor(c.multitenant))
	limits, err := validation.NewOverrides(c.limits, nil)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(c.storage.DataPath, 0o777); err != nil { // the ingester reads it before it creates it
		return err
	}
	ingesters, err := ring.New(c.ingester.LifecyclerConfig.RingConfig, "ingester", "ring", logger,
		prometheus.WrapRegistererWithPrefix("pyroscope_", registry))
	if err != nil {
		return fmt.Errorf("ring of ingesters: %w", err)
	}
	ctx := pyroscopecontext.WithRegistry(pyroscopecontext.WithLogger(context.Background(), logger), registry)
	stores, err := ingester.New(ctx, c.ingester, c.storage, nil, limits, c.querier.QueryStoreAfter)
	if err != nil {
		return fmt.Errorf("ingester: %w", err)
	}
	pushes, err := distributor.New(c.distributor, ingesters, nil, limits, registry,
		log.With(logger, "component", "distributor"), nil, auth)
	if err != nil {
		return fmt.Errorf("distributor: %w", err)
	}
	queries, err := querier.New(&querier.NewQuerierParams{
		Cfg: c.querier, Overrides: limits, CfgProvider: limits, IngestersRing: ingesters, Reg: registry,
		Logger: log.With(logger, "component", "querier"), ClientOptions: []connect.ClientOption{auth},
	})
	if err != nil {
		return fmt.Errorf("querier: %w", err)
	}
	parts, err := services.NewManager(ingesters, stores, pushes, queries)
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", net.JoinHostPort(c.address, strconv.Itoa(c.port)))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	handle(mux, c, limits, logger, auth, stores, pushes, queries)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		err := stores.CheckReady(r.Context())
		if err == nil && !parts.IsHealthy() {
			err = errors.New("some services are not running")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		util.WriteTextResponse(w, "ready")
	})
	server := &http.Server{
		Handler: middleware.Merge(util.RecoveryHTTPMiddleware, featureflags.ClientCapabilitiesHttpMiddleware()).Wrap(mux),
		// The parts talk to each other over HTTP/2 without TLS, like the server's clients.
		Protocols: &http.Protocols{},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	failed := services.NewFailureWatcher()
	failed.WatchManager(parts)
	if err := parts.StartAsync(context.Background()); err != nil {
		return err
	}
	var end error
	select {
	case <-stop.Done():
	case end = <-failed.Chan():
	case end = <-served:
	}
	parts.StopAsync()
	if err := parts.AwaitStopped(context.Background()); err != nil {
		return errors.Join(end, err)
	}
	wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	server.Shutdown(wait) // closes the port at once, then waits for clients
	return end
}

// handle registers the handlers of the parts like Pyroscope's package api.
func handle(mux *http.ServeMux, c *config, limits *validation.Overrides, logger log.Logger, auth connect.HandlerOption,
	stores *ingester.Ingester, pushes *distributor.Distributor, queries *querier.Querier) {
	recovery := connect.WithInterceptors(util.RecoveryInterceptor)
	options := func(more ...connect.HandlerOption) []connect.HandlerOption {
		return append(append(connectapi.DefaultHandlerOptions(), auth), append(more, recovery)...)
	}
	mux.Handle(ingesterv1connect.NewIngesterServiceHandler(stores, options()...))
	mux.Handle(pushv1connect.NewPusherServiceHandler(pushes, options(
		connect.WithReadMaxBytes(int(limits.IngestionBodyLimitBytes(tenant.DefaultTenantID))),
		connect.WithInterceptors(delayhandler.NewConnect(limits)))...))
	mux.Handle(querierv1connect.NewQuerierServiceHandler(queries, options(
		connect.WithInterceptors(util.NewLogInterceptor(logger)))...))
	ingest := middleware.Merge(util.AuthenticateUser(c.multitenant), middleware.Func(delayhandler.NewHTTP(limits)),
		middleware.Func(body.NewSizeLimitHandler(limits))).Wrap(pyroscope.NewPyroscopeIngestHandler(pushes, limits, logger))
	mux.Handle("POST /ingest", ingest)
	mux.Handle("POST /pyroscope/ingest", ingest)
	mux.Handle("GET /metrics", promhttp.Handler())
}
