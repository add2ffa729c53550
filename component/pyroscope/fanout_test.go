package pyroscope

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

var (
	someLabels  = labels.FromStrings("__name__", "process_cpu", "service_name", "a")
	someSamples = []*RawSample{{RawProfile: []byte("profile")}}

	someIncoming = &IncomingProfile{RawBody: []byte("profile"), Labels: someLabels}
)

// recorder counts its calls and answers err.
type recorder struct {
	calls   atomic.Int64
	ingests atomic.Int64
	err     error
}

func (r *recorder) Appender() Appender { return r }

func (r *recorder) Append(_ context.Context, l labels.Labels, samples []*RawSample) error {
	if labels.Equal(l, someLabels) && len(samples) == 1 && samples[0] == someSamples[0] {
		r.calls.Add(1)
	}
	return r.err
}

func (r *recorder) AppendIngest(_ context.Context, profile *IncomingProfile) error {
	if profile == someIncoming {
		r.ingests.Add(1)
	}
	return r.err
}

func appendTo(f *Fanout) error {
	return f.Appender().Append(context.Background(), someLabels, someSamples)
}

func TestFanout(t *testing.T) {
	one, two := &recorder{}, &recorder{}
	f := NewFanout([]Appendable{one, nil, two, NoopAppendable{}}, "test.id", prometheus.NewRegistry())
	require.NoError(t, appendTo(f))
	require.EqualValues(t, 1, one.calls.Load())
	require.EqualValues(t, 1, two.calls.Load())
	require.Len(t, f.Children(), 4)
}

func TestFanoutOfIngest(t *testing.T) {
	one, two := &recorder{}, &recorder{err: errors.New("two is full")}
	f := NewFanout([]Appendable{one, nil, two, NoopAppendable{}}, "test.id", nil)
	require.EqualError(t, f.Appender().AppendIngest(context.Background(), someIncoming),
		"test.id: forward profile: two is full")
	require.EqualValues(t, 1, one.ingests.Load())
	require.EqualValues(t, 1, two.ingests.Load())

	f.UpdateChildren([]Appendable{AppendableFunc(nil)})
	require.ErrorIs(t, f.Appender().AppendIngest(context.Background(), someIncoming), ErrNoIngest)
}

func TestFanoutWithoutChildren(t *testing.T) {
	require.NoError(t, appendTo(NewFanout(nil, "test.id", nil)))
	require.NoError(t, appendTo(NewFanout([]Appendable{nil}, "test.id", nil)))
}

func TestFanoutErrorsDoNotStopOthers(t *testing.T) {
	errOne, errThree := errors.New("one is full"), errors.New("three has exited")
	one, two, three := &recorder{err: errOne}, &recorder{}, &recorder{err: errThree}
	f := NewFanout([]Appendable{one, two, three}, "test.id", nil)
	err := appendTo(f)
	require.ErrorIs(t, err, errOne)
	require.ErrorIs(t, err, errThree)
	require.ErrorContains(t, err, "test.id: forward profile: ")
	require.EqualValues(t, 1, two.calls.Load())

	f.UpdateChildren([]Appendable{one})
	require.EqualError(t, appendTo(f), "test.id: forward profile: one is full")
}

func TestFanoutSlowChild(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	slow := AppendableFunc(func(context.Context, labels.Labels, []*RawSample) error { <-stuck; return nil })
	fast := &recorder{}
	f := NewFanout([]Appendable{slow, fast}, "test.id", nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Appender().Append(ctx, someLabels, someSamples) }()

	testkit.Eventually(t, "does not wait for the slow one", func() bool { return fast.calls.Load() == 1 })
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "1 of 2 receivers have not answered")
}

// An Appender keeps the children of its moment.
func TestFanoutSnapshot(t *testing.T) {
	before, after := &recorder{}, &recorder{}
	children := []Appendable{before}
	f := NewFanout(children, "test.id", nil)
	children[0] = after // the caller's slice is not the Fanout's
	appender := f.Appender()
	f.UpdateChildren([]Appendable{after})
	require.NoError(t, appender.Append(context.Background(), someLabels, someSamples))
	require.EqualValues(t, 1, before.calls.Load())
	require.NoError(t, appendTo(f))
	require.EqualValues(t, 1, after.calls.Load())
}

func TestFanoutConcurrentUse(t *testing.T) {
	target := &recorder{}
	f := NewFanout(nil, "test.id", nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				f.UpdateChildren([]Appendable{target, nil, target})
				if err := appendTo(f); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4*200*2, target.calls.Load())
}

func TestFanoutMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	bad := &recorder{err: errors.New("full")}
	for range 2 { // a component that is built again finds its metrics
		require.NoError(t, appendTo(NewFanout([]Appendable{NoopAppendable{}, NoopAppendable{}}, "test.id", registry)))
	}
	require.Error(t, appendTo(NewFanout([]Appendable{bad}, "test.id", registry)))
	require.Error(t, appendTo(NewFanout([]Appendable{bad, NoopAppendable{}}, "test.id", registry)))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 2)
	require.Equal(t, "pyroscope_fanout_latency", families[0].GetName())
	require.EqualValues(t, 4, families[0].GetMetric()[0].GetHistogram().GetSampleCount())
	require.Equal(t, "pyroscope_forwarded_entries_total", families[1].GetName())
	require.EqualValues(t, 3, families[1].GetMetric()[0].GetCounter().GetValue())
}
