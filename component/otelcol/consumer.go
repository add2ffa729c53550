// Package otelcol holds what components that take telemetry have in common.
package otelcol

import (
	"context"

	"go.opentelemetry.io/otel/sdk/trace"
)

// Consumer takes finished spans. It is what the tracing block writes to.
type Consumer interface {
	// ExportSpans sends spans, or returns an error when ctx is done first. It
	// does not keep them. It may be called at any time, from several goroutines.
	ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error
}

// ConsumerExports is what a component that takes telemetry exports.
type ConsumerExports struct {
	Input Consumer `river:"input,attr"`
}
