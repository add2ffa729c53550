package river

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// logBuffer is a log that a test can read during writes.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// host is a runtime with test components.
type host struct {
	*lab
	*Runtime
	t       *testing.T
	log     *logBuffer
	metrics *prometheus.Registry
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{lab: newLab(), t: t, log: &logBuffer{}, metrics: prometheus.NewRegistry()}
	h.Runtime = New(Options{
		Registry:    h.lab.registry(t),
		Logger:      NewLogger(h.log),
		DataPath:    t.TempDir(),
		Registerer:  h.metrics,
		StopTimeout: 2 * time.Second,
	})
	return h
}

// load loads text as the file c.river.
func (h *host) load(text string) error {
	source, err := Parse(map[string][]byte{"c.river": []byte(text)})
	if err != nil {
		return err
	}
	return h.Load(source)
}

// runs loads text and runs it until the test ends or the returned function is called. It checks
// that no goroutine is left.
func (h *host) runs(text string) (stop func()) {
	h.t.Helper()
	before := goruntime.NumGoroutine()
	require.NoError(h.t, h.load(text))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		h.eventually("all goroutines have ended", func() bool { return goruntime.NumGoroutine() <= before })
	})
	h.t.Cleanup(stop)
	return stop
}

func (h *host) eventually(what string, holds func() bool) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			h.t.Logf("events: %v\nlog:\n%s", h.happened(), h.log)
		}
	}()
	testkit.Eventually(h.t, what, holds)
}

// out returns a component's current export.
func (h *host) out(id string) string {
	_, found := h.instance(id)
	n, ok := found.(*componentNode)
	require.True(h.t, ok, "no component %s", id)
	exports, _ := n.exported().(specimenExports)
	return exports.Out
}

func (h *host) health(id string) (state, message string) {
	info, found := h.Component(id)
	require.True(h.t, found, "no component %s", id)
	return info.Health.State, info.Health.Message
}

func (h *host) has(event string) func() bool {
	return func() bool { return count(h.happened(), event) > 0 }
}

func count(events []string, event string) int {
	n := 0
	for _, e := range events {
		if e == event {
			n++
		}
	}
	return n
}

// printed returns an error in the form that a user sees.
func printed(t *testing.T, err error) string {
	t.Helper()
	var failed *LoadError
	require.True(t, errors.As(err, &failed), "not a LoadError: %v", err)
	var text strings.Builder
	require.NoError(t, failed.Fprint(&text, false))
	return text.String()
}

// metric returns the values of one metric with their labels, as in "{a=b} 1".
func (h *host) metric(name string) []string {
	h.t.Helper()
	families, err := h.metrics.Gather()
	require.NoError(h.t, err)
	var values []string
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			values = append(values, fmt.Sprintf("{%s} %v", strings.Join(labels, ","), value))
		}
	}
	return values
}
