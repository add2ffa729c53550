package delivery

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// gate is a proxy between headwater and a Pyroscope server. It can be shut, it can answer
// instead of the server, and it counts what the server has taken.
type gate struct {
	url    string // for headwater
	server string // destination of the requests that pass
	addr   string
	http   *http.Server

	mu    sync.Mutex
	fault fault
	taken []arrival
}

// fault answers a request instead of the server, or after it. forward lets
// the request through and returns what the server answers.
type fault func(w http.ResponseWriter, r *http.Request, forward func() *httptest.ResponseRecorder)

// arrival is a profile that the server has taken.
type arrival struct {
	bytes, samples int
	total          int64 // of the first value
}

// newGate returns a gate that is open.
func newGate(t testing.TB, server string) *gate {
	t.Helper()
	g := &gate{addr: "127.0.0.1:" + rig.FreePort(t), server: server}
	g.url = "http://" + g.addr
	g.open(t)
	t.Cleanup(func() { g.http.Close() })
	return g
}

// open lets requests come in.
func (g *gate) open(t testing.TB) {
	t.Helper()
	var listener net.Listener
	testkit.Eventually(t, "the gate's port is free", func() (free bool) { // a forked child may have the last listener
		var err error
		listener, err = net.Listen("tcp", g.addr)
		return err == nil
	})
	g.http = &http.Server{Handler: g}
	go g.http.Serve(listener)
}

// shut turns the gate into a port without a listener. It first lets requests in flight be answered: a profile that the
// server has taken without an answer would be sent again.
func (g *gate) shut(t testing.TB) {
	t.Helper()
	if err := g.http.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// set answers requests by f from now on; nil lets all through.
func (g *gate) set(f fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	forward := func() *httptest.ResponseRecorder { return g.forward(r, body) }
	g.mu.Lock()
	f := g.fault
	g.mu.Unlock()
	if f == nil {
		f = letThrough
	}
	f(w, r, forward)
}

// letThrough forwards a request and its answer as they are.
func letThrough(w http.ResponseWriter, _ *http.Request, forward func() *httptest.ResponseRecorder) {
	answer := forward()
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// forward passes a request to the server, and notes what the server takes.
func (g *gate) forward(r *http.Request, body []byte) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	request, err := http.NewRequest(r.Method, g.server+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		answer.Code = http.StatusInternalServerError
		return answer
	}
	request.Header = r.Header.Clone()
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		answer.Code = http.StatusBadGateway
		return answer
	}
	defer got.Body.Close()
	for name, values := range got.Header {
		answer.Header()[name] = values
	}
	answer.Code = got.StatusCode
	io.Copy(answer.Body, got.Body)
	if got.StatusCode == http.StatusOK {
		g.note(body)
	}
	return answer
}

func (g *gate) note(body []byte) {
	var request pushv1.PushRequest
	if proto.Unmarshal(body, &request) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, series := range request.Series {
		for _, sample := range series.Samples {
			a := arrival{bytes: len(sample.RawProfile)}
			if p, err := profile.ParseData(sample.RawProfile); err == nil {
				a.samples = len(p.Sample)
				for _, s := range p.Sample {
					a.total += s.Value[0]
				}
			}
			g.taken = append(g.taken, a)
		}
	}
}

// sum adds up what the server has taken.
func (g *gate) sum() (profiles int, all arrival) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.taken {
		all.bytes += a.bytes
		all.samples += a.samples
		all.total += a.total
	}
	return len(g.taken), all
}

func (a arrival) String() string {
	return fmt.Sprintf("%d bytes, %d samples, %d ns", a.bytes, a.samples, a.total)
}
