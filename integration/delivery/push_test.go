package delivery

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/pprof/profile"
	"github.com/grafana/river"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
	pyro "github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// The remote_timeout of pushes. A slow server takes longer than slowTimeout; a normal server answers within pushTimeout
// even on a busy machine. If pushTimeout caused a push to be sent again, a test would fail.
const (
	slowTimeout = 8 * time.Second
	pushTimeout = 2 * time.Minute
)

// faults are what a server, or a proxy before it, does to the first request of a push.
var faults = map[string]struct {
	answer  fault
	memory  bool // it arrives when profiles wait in memory, as it would with Grafana Agent
	queue   bool // it arrives when profiles wait on disk
	nightly bool // make test has another fault that differs little
}{
	"400 of the server": {letThrough, false, false, false},
	"400 of a proxy":    {answerStatus(400), false, true, true},
	"401 expired token": {answerStatus(401), false, true, false},
	"403":               {answerStatus(403), false, true, true},
	"404":               {answerStatus(404), false, true, true},
	"408":               {answerStatus(408), true, true, true},
	"413":               {answerStatus(413), false, false, false},
	"429 with Retry-After": {func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}, true, true, false},
	"500": {answerStatus(500), true, true, true},
	"502": {answerStatus(502), true, true, true},
	"503": {answerStatus(503), true, true, false},
	"slow before the push": {func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) {
		waitFor(r.Context(), 2*slowTimeout)
	}, true, true, true},
	"slow body after the push": {func(w http.ResponseWriter, r *http.Request, forward func() *httptest.ResponseRecorder) {
		forward()
		w.Header().Set("Content-Type", "application/proto")
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		for range 40 {
			w.Write([]byte{0})
			w.(http.Flusher).Flush()
			if !waitFor(r.Context(), slowTimeout/20) {
				return
			}
		}
	}, true, true, false},
	"reset before the response": {func(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) {
		hijack(w, "")
	}, true, true, true},
	"reset within the response": {func(w http.ResponseWriter, _ *http.Request, forward func() *httptest.ResponseRecorder) {
		forward()
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 100\r\n\r\nabc")
	}, true, true, false},
	"redirect 302": {redirect(302), false, true, false},
	"redirect 307": {redirect(307), true, true, true},
	"redirect 308": {redirect(308), true, true, true},
	"login page": {func(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>please log in</html>")
	}, true, true, false},
}

// answerStatus answers as a proxy does.
func answerStatus(status int) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) {
		http.Error(w, "<html>no</html>", status)
	}
}

// redirect sends the client to the same gate, where the next request is let
// through.
func redirect(status int) fault {
	return func(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) {
		http.Redirect(w, r, r.URL.Path, status)
	}
}

func hijack(w http.ResponseWriter, answer string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	io.WriteString(conn, answer)
	conn.Close()
}

// waitFor waits for some time and reports whether ctx was still active at the end.
func waitFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// TestPushMatrix pushes to the real Pyroscope through a gate that fails once, in every way. Profiles that must arrive
// do so once, according to the sum of their values there, and the remaining ones are counted. With a queue more
// profiles arrive than without. make test pushes with half of the faults, make nightly with all.
func TestPushMatrix(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	for name, test := range faults {
		if test.nightly && !testkit.IsNightly() {
			continue
		}
		for mode, arrives := range map[string]bool{"memory": test.memory, "queue": test.queue} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				g := newGate(t, server.URL)
				calls := 0
				g.set(func(w http.ResponseWriter, r *http.Request, forward func() *httptest.ResponseRecorder) {
					g.mu.Lock()
					calls++
					bad := calls == 1
					g.mu.Unlock()
					if bad {
						test.answer(w, r, forward)
						return
					}
					letThrough(w, r, forward)
				})
				timeout := pushTimeout
				if strings.HasPrefix(name, "slow") {
					timeout = slowTimeout
				}
				config := endpointConfig(g.url, timeout, "")
				if mode == "queue" {
					config += "\nqueue {\n}"
				}
				c := startWrite(t, config)
				service := fmt.Sprintf("matrix-%s-%d", mode, time.Now().UnixNano())
				at := time.Now()
				if name == "400 of the server" {
					at = at.Add(-3 * time.Hour)
				}
				const value = 123_456_789
				c.append(t, service, at, value)
				testkit.Eventually(t, "the profile is done with", func() bool {
					return c.metric(t, "pyroscope_write_sent_profiles_total")+
						c.metric(t, "pyroscope_write_dropped_profiles_total") == 1
				})

				if !arrives {
					if c.metric(t, "pyroscope_write_drop_reasons_total") != 1 ||
						c.metric(t, "pyroscope_write_sent_profiles_total") != 0 {
						t.Errorf("it is not counted as dropped; the log:\n%s", c.log)
					}
					return
				}
				if n := c.metric(t, "pyroscope_write_sent_profiles_total"); n != 1 {
					t.Fatalf("it was dropped; the log:\n%s", c.log)
				}
				sum := int64(0)
				testkit.Eventually(t, "the profile is in Pyroscope", func() bool {
					sum = rig.Total(rig.Stacks(server.Profile(t, rig.CPUProfile, fmt.Sprintf("{service_name=%q}", service),
						time.Time{})))
					return sum > 0
				})

				if sum != value {
					t.Errorf("Pyroscope has %d ns of it, want %d", sum, value)
				}
			})
		}
	}
}

// TestPushToWrongName pushes to a server whose certificate has another name. No profile is sent to it, and with a queue
// all arrive once the configuration is correct.
func TestPushToWrongName(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	g := newGate(t, server.URL)
	secure := httptest.NewUnstartedServer(g)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // refused handshakes are wanted here
	secure.StartTLS()
	defer secure.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	config := func(name string) string {
		tls := fmt.Sprintf("tls_config {\nca_pem = %q\nserver_name = %q\n}", ca, name)
		return endpointConfig(secure.URL, pushTimeout, tls) + "\nqueue {\n}"
	}
	c := startWrite(t, config("wrong.invalid"))
	c.append(t, "wrong-name", time.Now(), 1000)
	testkit.Eventually(t, "the certificate is refused",
		func() bool { return len(c.log.Lines("certificate")) > 0 })

	if n, _ := g.sum(); n != 0 {
		t.Fatal("a profile was sent to a server of the wrong name")
	}
	c.update(t, config("example.com")) // the name in httptest's certificate
	testkit.Eventually(t, "the profile arrives", func() bool { n, _ := g.sum(); return n == 1 })
}

// TestExpiredToken lets a token expire: with a queue no profile is lost, and the new token is read from its file.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	g := newGate(t, server.URL)
	g.set(func(w http.ResponseWriter, r *http.Request, forward func() *httptest.ResponseRecorder) {
		if r.Header.Get("Authorization") != "Bearer new" {
			answerStatus(http.StatusUnauthorized)(w, r, forward)
			return
		}
		letThrough(w, r, forward)
	})
	token := filepath.Join(t.TempDir(), "token")
	rig.WriteFile(t, token, "old")
	c := startWrite(t, endpointConfig(g.url, pushTimeout, fmt.Sprintf("bearer_token_file = %q", token))+"\nqueue {\n}")
	for i := range 20 {
		c.append(t, "token", time.Now().Add(time.Duration(i)*time.Millisecond), 10)
	}
	testkit.Eventually(t, "the old token is refused",
		func() bool { return len(c.log.Lines("401")) > 0 || len(c.log.Lines("unauthenticated")) > 0 })

	rig.WriteFile(t, token, "new")
	testkit.Eventually(t, "all arrive", func() bool { n, all := g.sum(); return n == 20 && all.total == 200 })
}

// TestServerLimits pushes profiles that are larger than Pyroscope accepts by default. They
// arrive in parts, with all samples.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	g := newGate(t, server.URL)
	c := startWrite(t, endpointConfig(g.url, pushTimeout, "")+"\nqueue {\n}")
	for name, test := range map[string]struct{ samples, nameSize int }{
		"samples": {18_000, 10}, // more than 16,000
		"bytes":   {9000, 400},  // more than 2 MB
	} {
		want := int64(0)
		p := largeProfile(test.samples, test.nameSize)
		for _, sample := range p.Sample {
			want += sample.Value[0]
		}
		c.appendProfile(t, "limits-"+name, p)
		got := int64(0)
		testkit.Eventually(t, name+" arrive", func() bool {
			got = rig.Total(rig.Stacks(server.Profile(t, rig.CPUProfile, fmt.Sprintf(`{service_name="limits-%s"}`, name),
				time.Time{})))
			return got >= want
		})

		if got != want {
			t.Errorf("%s: Pyroscope has %d ns, want %d", name, got, want)
		}
	}
	if c.metric(t, "pyroscope_write_dropped_profiles_total") != 0 {
		t.Errorf("something was dropped; Pyroscope says %s", refused(t, server))
	}
}

// writer is a pyroscope.write in this process.
type writer struct {
	component *write.Component
	receiver  pyro.Appendable
	registry  *prometheus.Registry
	log       *rig.Output
}

// endpointConfig returns an endpoint block with short waits between attempts.
func endpointConfig(url string, timeout time.Duration, more string) string {
	return fmt.Sprintf(`endpoint {
	url                = %q
	remote_timeout     = %q
	min_backoff_period = "50ms"
	max_backoff_period = "2s"
	%s
}`, url, timeout, more)
}

func startWrite(t testing.TB, config string) *writer {
	t.Helper()
	w := &writer{registry: prometheus.NewRegistry(), log: &rig.Output{}}
	var err error
	w.component, err = write.New(component.Options{
		ID: "pyroscope.write.test", DataPath: t.TempDir(), Registerer: w.registry,
		Logger:        log.NewLogfmtLogger(log.NewSyncWriter(w.log)),
		OnStateChange: func(e component.Exports) { w.receiver = e.(write.Exports).Receiver },
	}, decodeArguments(t, config))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.component.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

func decodeArguments(t testing.TB, config string) write.Arguments {
	t.Helper()
	var args write.Arguments
	if err := river.Unmarshal([]byte(config), &args); err != nil {
		t.Fatal(err)
	}
	return args
}

func (w *writer) update(t testing.TB, config string) {
	t.Helper()
	if err := w.component.Update(decodeArguments(t, config)); err != nil {
		t.Fatal(err)
	}
}

// append appends a profile of one sample.
func (w *writer) append(t testing.TB, service string, at time.Time, value int64) {
	t.Helper()
	p := largeProfile(1, 1)
	p.Sample[0].Value[0] = value
	p.TimeNanos = at.UnixNano()
	w.appendProfile(t, service, p)
}

func (w *writer) appendProfile(t testing.TB, service string, p *profile.Profile) {
	t.Helper()
	var raw bytes.Buffer
	if err := p.Write(&raw); err != nil {
		t.Fatal(err)
	}
	of := labels.FromStrings("__name__", "process_cpu", "service_name", service)
	if err := w.receiver.Appender().Append(t.Context(), of, []*pyro.RawSample{{RawProfile: raw.Bytes()}}); err != nil {
		t.Fatal(err)
	}
}

// metric returns the sum of a counter over its series.
func (w *writer) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// largeProfile returns a profile of a number of samples, each of a function of its own.
func largeProfile(samples, nameSize int) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     1, TimeNanos: time.Now().UnixNano(),
	}
	for i := range samples {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("f%0*d", nameSize, i)}
		l := &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{int64(i + 1)}})
	}
	return p
}
