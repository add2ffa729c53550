// Package tracing has dskit's spans, but does not export them.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

var tracer = otel.Tracer("dskit/tracing")

// ExtractTraceID returns the identifier of the trace in ctx.
func ExtractTraceID(ctx context.Context) (string, bool) {
	span := trace.SpanContextFromContext(ctx)
	return span.TraceID().String(), span.IsValid()
}

// ExtractTraceSpanID returns the identifiers of the trace and of the span in ctx.
func ExtractTraceSpanID(ctx context.Context) (traceID, spanID string, found bool) {
	span := trace.SpanContextFromContext(ctx)
	return span.TraceID().String(), span.SpanID().String(), span.IsValid()
}

// ExtractSampledTraceID returns the identifier of the trace in ctx and whether the trace is sampled.
func ExtractSampledTraceID(ctx context.Context) (string, bool) {
	span := trace.SpanContextFromContext(ctx)
	return span.TraceID().String(), span.IsSampled()
}
