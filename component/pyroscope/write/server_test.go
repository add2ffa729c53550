package write

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
)

// server is a Pyroscope that speaks real Connect and answers what the test wants.
type server struct {
	*httptest.Server
	pushed chan push
	keep   bool // send received profiles to pushed

	mu           sync.Mutex
	answer       func(call int, request *connect.Request[pushv1.PushRequest]) error
	answerIngest func(call int) (status int)
	around       func(w http.ResponseWriter, r *http.Request, next http.Handler)
	calls        int

	hanging atomic.Int64 // requests that hang holds
}

// push is one request as the server got it.
type push struct {
	labels  map[string]string
	profile string
	id      string
	header  http.Header
	path    string
	query   string
}

func newServer(t *testing.T) *server {
	s := &server{pushed: make(chan push, 10_000), keep: true}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(s))
	mux.HandleFunc("POST /ingest", s.ingest)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		around := s.around
		s.mu.Unlock()
		if around != nil {
			around(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Push implements pushv1connect.PusherServiceHandler.
func (s *server) Push(_ context.Context,
	r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	s.mu.Lock()
	s.calls++
	call, answer := s.calls, s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(call, r); err != nil {
			return nil, err
		}
	}
	for _, series := range r.Msg.Series {
		got := push{labels: map[string]string{}, header: r.Header().Clone(), path: r.Spec().Procedure}
		for _, pair := range series.Labels {
			got.labels[pair.Name] = pair.Value
		}
		for _, sample := range series.Samples {
			got.profile += string(sample.RawProfile)
			got.id += sample.ID
		}
		if s.keep {
			s.pushed <- got
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

// ingest is the older API.
func (s *server) ingest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.calls++
	call, answer := s.calls, s.answerIngest
	s.mu.Unlock()
	if answer != nil {
		if status := answer(call); status != http.StatusOK {
			http.Error(w, "says the server", status)
			return
		}
	}
	s.pushed <- push{profile: string(body), header: r.Header.Clone(), path: r.URL.Path, query: r.URL.RawQuery}
}

// set makes the server answer pushes by f, which gets their number, from 1.
func (s *server) set(f func(call int, request *connect.Request[pushv1.PushRequest]) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// wrap makes the server answer HTTP requests by f.
func (s *server) wrap(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.around = f
}

func (s *server) callCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// receive returns the next profile that arrived.
func (s *server) receive(t *testing.T) push {
	t.Helper()
	select {
	case p := <-s.pushed:
		return p
	case <-time.After(2 * time.Minute):
		t.Fatal("no profile arrived")
		return push{}
	}
}

// endpointTo returns options for a server, with short waits.
func endpointTo(url string) *EndpointOptions {
	o := &EndpointOptions{}
	o.SetToDefault()
	o.URL = url
	o.MinBackoff, o.MaxBackoff = 10*time.Millisecond, 40*time.Millisecond
	o.RemoteTimeout = time.Minute
	return o
}

func argumentsTo(urls ...string) Arguments {
	var args Arguments
	for _, url := range urls {
		args.Endpoints = append(args.Endpoints, endpointTo(url))
	}
	return args
}

func testTuning() tuning {
	t := defaultTuning()
	t.grace, t.flush, t.logEvery = 0, 10*time.Minute, 50*time.Millisecond
	return t
}

// rig is a component under test in a host of its own.
type rig struct {
	*Component
	t        *testing.T
	receiver pyroscope.Appendable
	registry *prometheus.Registry
	log      *logBuffer

	once   sync.Once
	cancel context.CancelFunc
	done   chan error
}

// newRig builds the component, but does not run it.
func newRig(t *testing.T, args Arguments, tune tuning) *rig {
	t.Helper()
	r := &rig{t: t, registry: prometheus.NewRegistry(), log: &logBuffer{}, done: make(chan error, 1)}
	opts := component.Options{
		ID:            "pyroscope.write.test",
		Logger:        log.NewLogfmtLogger(r.log),
		Registerer:    r.registry,
		OnStateChange: func(e component.Exports) { r.receiver = e.(Exports).Receiver },
	}
	var err error
	r.Component, err = newComponent(opts, args, tune)
	require.NoError(t, err)
	require.NotNil(t, r.receiver, "exported at once")
	return r
}

// run starts the component; it is stopped at the end of the test.
func (r *rig) run() *rig {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx) }()
	r.t.Cleanup(r.stop)
	return r
}

func (r *rig) stop() {
	r.once.Do(func() {
		r.cancel()
		select {
		case err := <-r.done:
			require.NoError(r.t, err)
		case <-time.After(10 * time.Minute):
			r.t.Error("Run does not return")
		}
	})
}

// append hands over profiles of one series.
func (r *rig) append(profiles ...string) {
	r.t.Helper()
	for _, p := range profiles {
		require.NoError(r.t, r.tryAppend(p))
	}
}

func (r *rig) tryAppend(profile string) error {
	of := labels.FromStrings("__name__", "process_cpu", "service_name", "a")
	return r.receiver.Appender().Append(context.Background(), of, []*pyroscope.RawSample{{RawProfile: []byte(profile)}})
}

// metric returns the sum of a metric over its series.
func (r *rig) metric(name string) float64 {
	families, err := r.registry.Gather()
	require.NoError(r.t, err)
	var sum float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// eventually waits until a metric has a value.
func (r *rig) eventually(name string, want float64) {
	r.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		if r.metric(name) == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(r.t, want, r.metric(name), name)
}

// logBuffer is a log that tests can read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
