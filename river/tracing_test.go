package river

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/otelcol"
)

// spanSink is a component that receives spans.
type spanSink struct {
	mu    sync.Mutex
	names []string
	ended bool
	late  int // spans received after its end
}

type spanSinkArgs struct{}

func (l *lab) buildSpanSink(options component.Options, _ component.Arguments) (component.Component, error) {
	options.OnStateChange(otelcol.ConsumerExports{Input: l.spans})
	return l.spans, nil
}

func (s *spanSink) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return nil
}

func (s *spanSink) Update(component.Arguments) error { return nil }

func (s *spanSink) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range spans {
		name := span.Name()
		for _, attribute := range span.Attributes() {
			name += " " + attribute.Value.AsString()
		}
		s.names = append(s.names, name)
		if s.ended {
			s.late++
		}
	}
	return nil
}

func (s *spanSink) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

func TestTracing(t *testing.T) {
	h := newHost(t)
	config := `
		tracing {
			sampling_fraction = 1
			write_to          = [test.spans.sink.input]
		}
		test.spans "sink" { }
		test.value "a" { in = "1" }
		test.value "b" { in = test.value.a.out }`
	stop := h.runs(config)
	h.get("test.value.a").options.OnStateChange(specimenExports{Out: "2"})
	h.eventually("b has the change", func() bool { return h.out("test.value.b") == "2" })
	_, span := h.get("test.value.a").options.Tracer.Tracer("x").Start(context.Background(), "of a component")
	span.End()
	require.NoError(t, h.load(config+"\n"+`test.value "c" { }`))
	stop()
	names := h.lab.spans.seen()
	require.Contains(t, names, "EvaluateNode test.value.b")
	require.Contains(t, names, "EvaluateNode test.value.c")
	require.Contains(t, names, "GraphEvaluate ")
	require.Contains(t, names, "of a component")
	require.Zero(t, h.lab.spans.late, "spans came after their taker had ended")
}

// TestTracingOff: without a consumer in a tracing block there are no spans, and an existing tracer
// stays usable.
func TestTracingOff(t *testing.T) {
	h := newHost(t)
	h.runs(`test.value "a" { }`)
	tracer := h.get("test.value.a").options.Tracer.Tracer("x")
	_, span := tracer.Start(context.Background(), "lost")
	require.False(t, span.IsRecording())
	span.End()
	require.NoError(t, h.load(`
		tracing {
			sampling_fraction = 1
			write_to          = [test.spans.sink.input]
			sampler { jaeger_remote { } }
		}
		test.spans "sink" { }
		test.value "a" { }`))
	require.Contains(t, h.log.String(), "jaeger_remote sampler is accepted without effect")
	_, span = tracer.Start(context.Background(), "kept")
	require.True(t, span.IsRecording())
	span.End()
	require.NoError(t, h.load(`test.value "a" { }`))
	h.eventually("what was recorded is sent", func() bool { return slices.Contains(h.lab.spans.seen(), "kept") })
	_, span = tracer.Start(context.Background(), "lost")
	require.False(t, span.IsRecording())
	span.End()
}
