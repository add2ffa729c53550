package river

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/otelcol"
)

// TracingArguments is the tracing block: the destination of the spans of the runtime and its
// components.
type TracingArguments struct {
	SamplingFraction float64            `river:"sampling_fraction,attr,optional"` // of traces; 0 to 1
	WriteTo          []otelcol.Consumer `river:"write_to,attr,optional"`
	SendTraceparent  bool               `river:"send_traceparent,attr,optional"`
	Sampler          *samplerArguments  `river:"sampler,block,optional"`
}

// samplerArguments are accepted for compatibility with the Agent.
type samplerArguments struct {
	JaegerRemote *jaegerArguments `river:"jaeger_remote,block,optional"`
}

type jaegerArguments struct {
	URL             string        `river:"url,attr,optional"`
	MaxOperations   int           `river:"max_operations,attr,optional"`
	RefreshInterval time.Duration `river:"refresh_interval,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *TracingArguments) SetToDefault() { *a = TracingArguments{SamplingFraction: 0.1} }

// Validate implements river.Validator.
func (a *TracingArguments) Validate() error {
	if a.SamplingFraction < 0 || a.SamplingFraction > 1 {
		return component.Refuse("sampling_fraction", "must be from 0 to 1, got %v", a.SamplingFraction)
	}
	return nil
}

// newTracingNode returns the node of the tracing block.
func newTracingNode(r *Runtime) *settingNode {
	return newSettingNode(r, "tracing", func(decode func(interface{}) error) error {
		var arguments TracingArguments
		if err := decode(&arguments); err != nil {
			return err
		}
		if arguments.Sampler != nil && arguments.Sampler.JaegerRemote != nil {
			level.Warn(r.logger).Log(
				"msg", "the jaeger_remote sampler is accepted without effect; sampling_fraction is used instead")
		}
		if arguments.SendTraceparent {
			level.Warn(r.logger).Log("msg", "send_traceparent is accepted without effect: requests carry no traceparent header")
		}
		r.tracing.configure(arguments)
		return nil
	})
}

// tracing is a trace.TracerProvider that has no effect and no cost until the tracing block names a
// consumer.
type tracing struct {
	embedded.TracerProvider
	logger log.Logger

	mu       sync.RWMutex
	current  trace.TracerProvider
	sdk      *sdktrace.TracerProvider // nil if there is no consumer
	settings TracingArguments
}

func newTracing(logger log.Logger) *tracing {
	return &tracing{logger: logger, current: noop.NewTracerProvider()}
}

// flushTimeout bounds the time for sending the last spans.
const flushTimeout = 3 * time.Second

func (t *tracing) configure(arguments TracingArguments) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if reflect.DeepEqual(t.settings, arguments) {
		return
	}
	previous := t.sdk
	t.settings, t.sdk, t.current = arguments, nil, noop.NewTracerProvider()
	if len(arguments.WriteTo) > 0 {
		t.sdk = sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(fanout(arguments.WriteTo)),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(arguments.SamplingFraction))),
			sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "headwater"))),
		)
		t.current = t.sdk
	}
	if previous != nil {
		go t.shutdown(previous)
	}
}

// close sends the remaining spans and stops tracing.
func (t *tracing) close() {
	t.mu.Lock()
	last := t.sdk
	t.settings, t.sdk, t.current = TracingArguments{}, nil, noop.NewTracerProvider()
	t.mu.Unlock()
	if last != nil {
		t.shutdown(last)
	}
}

func (t *tracing) shutdown(provider *sdktrace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		level.Warn(t.logger).Log("msg", "the last spans could not be sent", "err", err)
	}
}

// Tracer implements trace.TracerProvider. The tracer follows changes of the tracing block, so it
// may be kept.
func (t *tracing) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &tracer{provider: t, name: name, options: options}
}

type tracer struct {
	embedded.Tracer
	provider *tracing
	name     string
	options  []trace.TracerOption
}

// Start implements trace.Tracer.
func (t *tracer) Start(ctx context.Context, name string,
	options ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.provider.mu.RLock()
	current := t.provider.current
	t.provider.mu.RUnlock()
	return current.Tracer(t.name, t.options...).Start(ctx, name, options...)
}

// fanout writes spans to all consumers.
type fanout []otelcol.Consumer

// ExportSpans implements sdktrace.SpanExporter.
func (f fanout) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	var errs []error
	for _, consumer := range f {
		errs = append(errs, consumer.ExportSpans(ctx, spans))
	}
	return errors.Join(errs...)
}

// Shutdown implements sdktrace.SpanExporter.
func (f fanout) Shutdown(context.Context) error { return nil }

// startEvaluation starts the span of one node's evaluation. The returned function ends it.
func (r *Runtime) startEvaluation(ctx context.Context, n node) (end func(err error)) {
	_, span := r.tracing.Tracer("").Start(ctx, "EvaluateNode", trace.WithAttributes(attribute.String("node_id", n.id())))
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		} else {
			span.SetStatus(codes.Ok, "node successfully evaluated")
		}
		span.End()
	}
}
