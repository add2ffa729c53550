package receivehttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"github.com/grafana/river"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
)

// receiver keeps the profiles it receives and answers err.
type receiver struct {
	mu       sync.Mutex
	labels   []labels.Labels
	samples  []*pyroscope.RawSample
	profiles []*pyroscope.IncomingProfile
	err      error
}

func (r *receiver) Appender() pyroscope.Appender { return r }

func (r *receiver) Append(_ context.Context, l labels.Labels, samples []*pyroscope.RawSample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.labels, r.samples = append(r.labels, l), append(r.samples, samples...)
	return r.err
}

func (r *receiver) AppendIngest(_ context.Context, p *pyroscope.IncomingProfile) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiles = append(r.profiles, p)
	return r.err
}

func start(t *testing.T, r *receiver, config Server) *Component {
	t.Helper()
	c := New(component.Options{ID: "x", Logger: log.NewNopLogger()},
		Arguments{HTTP: config, ForwardTo: []pyroscope.Appendable{r}})
	run(t, c)
	return c
}

func run(t *testing.T, c *Component) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
}

func (c *Component) listening(t *testing.T) string {
	t.Helper()
	var addr string
	require.Eventually(t, func() bool {
		addr, _ = c.addr.Load().(string)
		return addr != ""
	}, 2*time.Minute, time.Millisecond)
	return addr
}

func local() Server {
	var s Server
	s.SetToDefault()
	s.ListenAddress, s.ListenPort = "127.0.0.1", 0
	return s
}

func TestPush(t *testing.T) {
	r := &receiver{}
	addr := start(t, r, local()).listening(t)
	client := pushv1connect.NewPusherServiceClient(http.DefaultClient, "http://"+addr)
	request := connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{
		{Labels: []*typesv1.LabelPair{{Name: "__name__", Value: "cpu"}},
			Samples: []*pushv1.RawSample{{ID: "i", RawProfile: []byte("p")}}},
		{Labels: []*typesv1.LabelPair{{Name: "__name__", Value: "cpu"}, {Name: "service_name", Value: "s"}}},
	}})
	_, err := client.Push(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, []labels.Labels{
		labels.FromStrings("__name__", "cpu", "service_name", "cpu"),
		labels.FromStrings("__name__", "cpu", "service_name", "s", "app_name", "cpu"),
	}, r.labels)
	require.Equal(t, []*pyroscope.RawSample{{ID: "i", RawProfile: []byte("p")}}, r.samples)

	r.err = errors.New("full")
	_, err = client.Push(context.Background(), request)
	require.Equal(t, connect.CodeInternal, connect.CodeOf(err))
}

func TestIngest(t *testing.T) {
	r := &receiver{}
	url := "http://" + start(t, r, local()).listening(t)
	post := func(path string, body string) (int, string) {
		response, err := http.Post(url+path, "text/x", strings.NewReader(body))
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	status, _ := post("/ingest?name=app%7Benv%3Ddev%7D&format=jfr", "raw")
	require.Equal(t, 200, status)
	require.Equal(t, "raw", string(r.profiles[0].RawBody))
	require.Equal(t, []string{"text/x"}, r.profiles[0].ContentType)
	require.Equal(t, "jfr", r.profiles[0].URL.Query().Get("format"))
	require.Equal(t, labels.FromStrings("__name__", "app", "env", "dev", "service_name", "app"), r.profiles[0].Labels)

	status, text := post("/ingest", "raw")
	require.Equal(t, 400, status, text)
	r.err = errors.New("full")
	status, _ = post("/ingest?name=app", "raw")
	require.Equal(t, 500, status)
	status, _ = post("/elsewhere", "")
	require.Equal(t, 404, status)
	response, err := http.Get(url + "/ingest")
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 405, response.StatusCode)
	status, _ = post("/ingest?name=app", string(bytes.Repeat([]byte("x"), MaxRequest+1)))
	require.Equal(t, 413, status)
}

// TestWhatClientsAreTold has a client send a profile again only where that helps, and counts it nowhere twice.
func TestWhatClientsAreTold(t *testing.T) {
	label := &pyroscope.RefusedError{Err: errors.New(`invalid label name "k8s-app"`)}
	large := &pyroscope.RefusedError{Err: errors.New("profile of more than 64 MiB"), TooLarge: true}
	away := errors.New("pyroscope.write.w has exited")
	for name, test := range map[string]struct {
		branches []error
		push     int
		ingest   int
	}{
		"a label":              {[]error{label}, 400, 400},
		"too large":            {[]error{large}, 400, 413},
		"away":                 {[]error{away}, 500, 500},
		"taken, and a label":   {[]error{nil, label}, 400, 400},
		"taken, and away":      {[]error{away, nil}, 200, 200},
		"away, and a label":    {[]error{away, label}, 500, 500},
		"taken, large, away":   {[]error{nil, large, away}, 400, 413},
		"all have taken it":    {[]error{nil, nil}, 200, 200},
		"no older API there":   {[]error{pyroscope.ErrNoIngest}, 400, 400},
		"nobody to send it to": {nil, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var receivers []pyroscope.Appendable
			for _, err := range test.branches {
				receivers = append(receivers, &receiver{err: err})
			}
			c := New(component.Options{ID: "x", Logger: log.NewNopLogger()}, Arguments{HTTP: local(), ForwardTo: receivers})
			run(t, c)
			url := "http://" + c.listening(t)
			for path, want := range map[string]int{
				"/ingest?name=app": test.ingest, "/push.v1.PusherService/Push": test.push,
			} {
				response, err := http.Post(url+path, "application/json",
					strings.NewReader(`{"series":[{"samples":[{"rawProfile":"cA=="}]}]}`))
				require.NoError(t, err)
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, want, response.StatusCode, "%s: %s", path, text)
				for _, err := range test.branches {
					if err != nil && want != 200 {
						require.Contains(t, strings.ReplaceAll(string(text), `\`, ""), err.Error(), "the reason")
					}
				}
			}
		})
	}
}

// TestSeriesOfOneRequest has one series refused and one taken.
func TestSeriesOfOneRequest(t *testing.T) {
	taken := 0
	c := New(component.Options{ID: "x", Logger: log.NewNopLogger()}, Arguments{HTTP: local(),
		ForwardTo: []pyroscope.Appendable{pyroscope.AppendableFunc(
			func(_ context.Context, l labels.Labels, _ []*pyroscope.RawSample) error {
				if l.Get("bad") != "" {
					return errors.New("away for a moment")
				}
				taken++
				return nil
			})}})
	run(t, c)
	client := pushv1connect.NewPusherServiceClient(http.DefaultClient, "http://"+c.listening(t))
	good := &pushv1.RawProfileSeries{Labels: []*typesv1.LabelPair{{Name: "__name__", Value: "cpu"}}}
	bad := &pushv1.RawProfileSeries{Labels: []*typesv1.LabelPair{{Name: "bad", Value: "1"}}}
	_, err := client.Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{
		Series: []*pushv1.RawProfileSeries{good, bad}}))
	require.NoError(t, err, "sent again, the first would count twice")
	require.Equal(t, 1, taken)
	_, err = client.Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{
		Series: []*pushv1.RawProfileSeries{bad}}))
	require.Equal(t, connect.CodeInternal, connect.CodeOf(err))
}

func TestPortIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	config := local()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	config.ListenPort, err = strconv.Atoi(port)
	require.NoError(t, err)
	c := start(t, &receiver{}, config)
	require.Eventually(t, func() bool { return c.CurrentHealth().Health == component.HealthTypeUnhealthy }, 2*time.Minute,
		time.Millisecond)
	require.Contains(t, c.CurrentHealth().Message, "address already in use")

	require.NoError(t, c.Update(Arguments{HTTP: local()}))
	c.listening(t)
	require.Equal(t, component.HealthTypeHealthy, c.CurrentHealth().Health)
	require.Error(t, c.Update(1))
}

func TestArguments(t *testing.T) {
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte("forward_to = []"), &args))
	require.Equal(t, 8080, args.HTTP.ListenPort)
	require.NoError(t,
		river.Unmarshal([]byte("forward_to = []\nhttp {\nlisten_address = \"0.0.0.0\"\nlisten_port = 9\n}"), &args))
	require.Equal(t, "0.0.0.0:9", args.HTTP.address())
	require.Equal(t, 30*time.Second, args.HTTP.ServerReadTimeout)
	require.ErrorContains(t, river.Unmarshal([]byte("forward_to = []\nhttp {\nlisten_port = 70000\n}"), &args),
		"between 0 and 65535")
}
