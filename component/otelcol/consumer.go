// Package otelcol holds the shared parts of the components that receive telemetry.
package otelcol

import (
	"context"

	"go.opentelemetry.io/otel/sdk/trace"
)

// Consumer receives finished spans. The tracing block writes to Consumers.
type Consumer interface {
	// ExportSpans sends spans, or returns an error when ctx is done first. It does not retain them. It may be called at
	// any time, from several goroutines.
	ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error
}

// ConsumerExports are the exports of a component that receives telemetry.
type ConsumerExports struct {
	Input Consumer `river:"input,attr"`
}
