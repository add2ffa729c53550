package exporter

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/otelcol"
)

// HTTPRegistration returns the registration of otelcol.exporter.otlphttp.
func HTTPRegistration() component.Registration {
	return component.Registration{Name: "otelcol.exporter.otlphttp", Args: HTTPArguments{},
		Exports: otelcol.ConsumerExports{}, Build: build}
}

// GRPCRegistration returns the registration of otelcol.exporter.otlp.
func GRPCRegistration() component.Registration {
	return component.Registration{Name: "otelcol.exporter.otlp", Args: GRPCArguments{},
		Exports: otelcol.ConsumerExports{}, Build: build}
}

// Component sends spans to a collector.
type Component struct {
	component.Condition
	options component.Options
	sent    prometheus.Counter
	failed  prometheus.Counter

	mu       sync.RWMutex
	exporter *otlptrace.Exporter
}

func build(options component.Options, arguments component.Arguments) (component.Component, error) {
	c := &Component{
		options: options,
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "otelcol_exporter_sent_spans_total", Help: "Number of spans that the collector accepted."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "otelcol_exporter_send_failed_spans_total",
			Help: "Number of spans that were lost, because the collector did not accept them."}),
	}
	c.SetHealth(component.HealthTypeHealthy, "nothing sent yet")
	options.Registerer.MustRegister(c.sent, c.failed)
	if err := c.Update(arguments); err != nil {
		return nil, err
	}
	options.OnStateChange(otelcol.ConsumerExports{Input: c})
	return c, nil
}

// Run implements component.Component.
func (c *Component) Run(ctx context.Context) error {
	<-ctx.Done()
	c.mu.RLock()
	last := c.exporter
	c.mu.RUnlock()
	c.endExporter(last)
	return nil
}

// Update implements component.Component.
func (c *Component) Update(arguments component.Arguments) error {
	var (
		next *otlptrace.Exporter
		err  error
	)
	switch a := arguments.(type) {
	case HTTPArguments:
		next, err = a.exporter()
	case GRPCArguments:
		next, err = a.exporter()
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	previous := c.exporter
	c.exporter = next
	c.mu.Unlock()
	if previous != nil {
		go c.endExporter(previous) // it may still be sending
	}
	return nil
}

func (c *Component) endExporter(exporter *otlptrace.Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := exporter.Shutdown(ctx); err != nil {
		level.Debug(c.options.Logger).Log("msg", "closing the exporter", "err", err)
	}
}

func (a HTTPArguments) exporter() (*otlptrace.Exporter, error) {
	compression := otlptracehttp.GzipCompression
	if a.Client.Compression != "gzip" {
		compression = otlptracehttp.NoCompression
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(a.endpointURL()),
		otlptracehttp.WithHeaders(a.Client.Headers),
		otlptracehttp.WithTimeout(a.Client.Timeout),
		otlptracehttp.WithCompression(compression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig(a.Retry.config())),
	}
	if proxy := a.Client.ProxyURL.URL; proxy != nil {
		options = append(options, otlptracehttp.WithProxy(func(*http.Request) (*url.URL, error) { return proxy, nil }))
	}
	if strings.HasPrefix(a.endpointURL(), "https://") {
		tls, err := a.Client.TLS.config()
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		options = append(options, otlptracehttp.WithTLSClientConfig(tls))
	}
	return otlptracehttp.New(context.Background(), options...) // does not connect
}

func (a GRPCArguments) exporter() (*otlptrace.Exporter, error) {
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(a.Client.Endpoint),
		otlptracegrpc.WithHeaders(a.Client.Headers),
		otlptracegrpc.WithTimeout(a.Timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig(a.Retry.config())),
	}
	if a.Client.Compression == "gzip" {
		options = append(options, otlptracegrpc.WithCompressor("gzip"))
	}
	if a.Client.TLS.Insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		tls, err := a.Client.TLS.config()
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(tls)))
	}
	return otlptracegrpc.New(context.Background(), options...) // connects in the background
}

// retryConfig has the fields of the SDK's retry configurations.
type retryConfig struct {
	Enabled         bool
	InitialInterval time.Duration
	MaxInterval     time.Duration
	MaxElapsedTime  time.Duration
}

func (r Retry) config() retryConfig {
	return retryConfig{Enabled: r.Enabled, InitialInterval: r.InitialInterval, MaxInterval: r.MaxInterval,
		MaxElapsedTime: r.MaxElapsedTime}
}

// ExportSpans implements otelcol.Consumer.
func (c *Component) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	c.mu.RLock()
	exporter := c.exporter
	c.mu.RUnlock()
	err := exporter.ExportSpans(ctx, spans)
	if err != nil {
		c.failed.Add(float64(len(spans)))
		c.SetHealth(component.HealthTypeUnhealthy, fmt.Sprintf("spans are lost: %s", err))
		level.Warn(c.options.Logger).Log("msg", "spans are lost", "spans", len(spans), "err", err)
	} else {
		c.sent.Add(float64(len(spans)))
		c.SetHealth(component.HealthTypeHealthy, "the collector accepts spans")
	}
	return err
}
