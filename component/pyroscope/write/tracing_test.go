package write

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headwater/headwater/component"
)

// Each request is a span, whose trace is in a header.
func TestTracing(t *testing.T) {
	for name, tracing := range map[string]Tracing{
		"both": {true, true}, "jaeger": {JaegerPropagator: true},
		"trace context": {TraceContextPropagator: true}, "neither": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			recorder := tracetest.NewSpanRecorder()
			args := argumentsTo(s.URL)
			args.Tracing = tracing
			r := &rig{t: t, registry: prometheus.NewRegistry(), log: &logBuffer{}, done: make(chan error, 1)}
			var err error
			r.Component, err = newComponent(component.Options{
				Tracer:        sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)),
				OnStateChange: func(e component.Exports) { r.receiver = e.(Exports).Receiver },
			}, args, testTuning())
			require.NoError(t, err)
			r.run().append("x")
			got := s.receive(t)
			r.stop()
			require.Len(t, recorder.Ended(), 1)
			span := recorder.Ended()[0]
			require.Equal(t, "pyroscope.write /push.v1.PusherService/Push", span.Name())
			ids := span.SpanContext()
			jaeger, context := "", ""
			if tracing.JaegerPropagator {
				jaeger = ids.TraceID().String() + ":" + ids.SpanID().String() + ":0:1"
			}
			if tracing.TraceContextPropagator {
				context = "00-" + ids.TraceID().String() + "-" + ids.SpanID().String() + "-01"
			}
			require.Equal(t, jaeger, got.header.Get("uber-trace-id"))
			require.Equal(t, context, got.header.Get("traceparent"))
		})
	}
}
