package ebpf

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/pprof/profile"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/testkit"
)

// fakeSession makes one profile of one sample with each Collect.
type fakeSession struct {
	mu         sync.Mutex
	options    []ebpf.Options // as started, then as updated
	updateErr  error
	collectErr error
	collects   uint64
	stopped    bool
	closed     bool
	services   []string      // profiles of a round; "svc" if empty
	hang       chan struct{} // if not nil, Collect waits until it is closed
	stats      *ebpf.Stats   // if not nil, what Stats returns

	done chan struct{}
	err  error
}

func (s *fakeSession) Update(o ebpf.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.updateErr != nil {
		return s.updateErr
	}
	s.options = append(s.options, o)
	return nil
}

func (s *fakeSession) Collect() ([]ebpf.Profile, error) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("collect after close")
	}
	s.collects++
	if s.collectErr != nil {
		return nil, s.collectErr
	}
	services := s.services
	if len(services) == 0 {
		services = []string{"svc"}
	}
	var profiles []ebpf.Profile
	for _, name := range services {
		profiles = append(profiles, fakeProfile(name))
	}
	return profiles, nil
}

func fakeProfile(service string) ebpf.Profile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	f := &profile.Function{ID: 1, Name: "main"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f}}}
	return ebpf.Profile{
		Labels: map[string]string{"__name__": "process_cpu", "service_name": service, "zone": "a"},
		Pprof: &profile.Profile{
			SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 10_000_000, TimeNanos: time.Now().UnixNano(),
			Function: []*profile.Function{f}, Location: []*profile.Location{l},
			Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{10_000_000}}},
		},
		Samples: 1, WithUser: 1, Complete: 1,
		Processes: []ebpf.Process{{PID: 7, Comm: "fake", Samples: 1, WithUser: 1, Complete: 1}},
	}
}

func (s *fakeSession) Stats() ebpf.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats != nil {
		return *s.stats
	}
	return ebpf.Stats{SamplerStats: ebpf.SamplerStats{
		Expected: 10 * s.collects, Delivered: 9 * s.collects, Idle: 2 * s.collects, Ignored: 3 * s.collects,
		Lost:      map[string]uint64{ebpf.LostToFullLogs: s.collects},
		Processes: 5, Executables: 4, Pages: 3, TableBytes: 4096,
	}, ProfileStats: ebpf.ProfileStats{
		Outcomes:     map[string]uint64{"complete": 3 * s.collects, "no_row": s.collects},
		KnownSymbols: map[string]uint64{"svc": 7 * s.collects},
		Binaries:     []ebpf.BinaryStats{{File: "/bin/x", BuildID: "ab", Outcome: "no_row", Samples: s.collects}},
	}}
}

func (s *fakeSession) Waiting() map[string]time.Duration {
	return map[string]time.Duration{"opening /mnt/dead": time.Minute}
}

func (s *fakeSession) Done() <-chan struct{} { return s.done }
func (s *fakeSession) Err() error            { return s.err }

func (s *fakeSession) StopSampling() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return nil
}

func (s *fakeSession) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *fakeSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// fail ends the session on its own.
func (s *fakeSession) fail(err error) {
	s.err = err
	close(s.done)
}

func (s *fakeSession) newest() ebpf.Options {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options[len(s.options)-1]
}

func (s *fakeSession) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// fakeReceiver keeps the profiles it receives.
type fakeReceiver struct {
	mu     sync.Mutex
	labels []labels.Labels
	raw    [][]byte
	err    error
	block  chan struct{} // if not nil, Append waits until it is closed
}

func (r *fakeReceiver) AppendIngest(context.Context, *pyroscope.IncomingProfile) error {
	return pyroscope.ErrNoIngest
}

func (r *fakeReceiver) Appender() pyroscope.Appender { return r }

func (r *fakeReceiver) Append(ctx context.Context, l labels.Labels, samples []*pyroscope.RawSample) error {
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range samples {
		r.labels, r.raw = append(r.labels, l), append(r.raw, s.RawProfile)
	}
	return r.err
}

func (r *fakeReceiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.raw)
}

// lab is a component with sessions that a test controls.
type lab struct {
	*Component
	registry *prometheus.Registry
	log      *lockedBuffer

	mu       sync.Mutex
	sessions []*fakeSession
	startErr error
}

func newLab(t testing.TB, args Arguments) *lab {
	t.Helper()
	return newLabIn(t, "", args)
}

// newLabIn returns a lab whose component has a folder for its data.
func newLabIn(t testing.TB, data string, args Arguments) *lab {
	t.Helper()
	l := &lab{registry: prometheus.NewRegistry(), log: &lockedBuffer{}}
	c, err := New(component.Options{
		ID: "pyroscope.ebpf.test", DataPath: data, Logger: log.NewLogfmtLogger(l.log), Registerer: l.registry,
		OnStateChange: func(component.Exports) { t.Error("pyroscope.ebpf has no exports") },
	}, args)
	require.NoError(t, err)
	l.Component = c
	c.start = func(o ebpf.Options) (session, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.startErr != nil {
			return nil, l.startErr
		}
		s := &fakeSession{options: []ebpf.Options{o}, done: make(chan struct{})}
		l.sessions = append(l.sessions, s)
		return s, nil
	}
	return l
}

// own returns the component's own figures.
func (l *lab) own() counts {
	return l.metrics.snapshot().counts
}

// sessionsStats returns the figures of all sessions.
func (l *lab) sessionsStats() ebpf.Stats {
	return l.metrics.snapshot().session
}

func (l *lab) setStartErr(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startErr = err
}

// session returns the session of that number, once there is one.
func (l *lab) session(t testing.TB, n int) *fakeSession {
	t.Helper()
	var found *fakeSession
	testkit.Eventually(t, "a session", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.sessions) > n {
			found = l.sessions[n]
		}
		return found != nil
	})
	return found
}

// run starts Run and returns a function that ends it and returns its error.
func (l *lab) run(t testing.TB) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-done:
			case <-time.After(2 * time.Minute):
				err = errors.New("Run did not return")
			}
		})
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// fastArgs collect every few milliseconds.
func fastArgs(receivers ...pyroscope.Appendable) Arguments {
	var args Arguments
	args.SetToDefault()
	args.ForwardTo = receivers
	args.Settings.CollectInterval = 5 * time.Millisecond
	args.Settings.TargetsOnly = false
	return args
}

// lockedBuffer is a bytes.Buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
