package write

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/contrib/propagators/jaeger"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Tracing selects the headers that pass a request's trace context to the server.
type Tracing struct {
	JaegerPropagator       bool `river:"jaeger_propagator,attr,optional"`        // uber-trace-id, which Pyroscope reads
	TraceContextPropagator bool `river:"trace_context_propagator,attr,optional"` // traceparent
}

// SetToDefault implements river.Defaulter.
func (t *Tracing) SetToDefault() { *t = Tracing{JaegerPropagator: true, TraceContextPropagator: true} }

// transport wraps next so that each request is a span of tracer.
func (t Tracing) transport(next http.RoundTripper, tracer trace.TracerProvider) http.RoundTripper {
	var propagators []propagation.TextMapPropagator
	if t.JaegerPropagator {
		propagators = append(propagators, jaeger.Jaeger{})
	}
	if t.TraceContextPropagator {
		propagators = append(propagators, propagation.TraceContext{})
	}
	return otelhttp.NewTransport(next,
		otelhttp.WithTracerProvider(tracer),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator(propagators...)),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return "pyroscope.write " + r.URL.Path }))
}
