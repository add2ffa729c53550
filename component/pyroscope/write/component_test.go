package write

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/integration/testkit"
)

type pushRequest = connect.Request[pushv1.PushRequest]

// answerCode answers every push with an error of that code.
func answerCode(code connect.Code) func(int, *pushRequest) error {
	return func(int, *pushRequest) error { return connect.NewError(code, errors.New("says the server")) }
}

// hang takes a request and never answers it.
func (s *server) hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	s.hanging.Add(1)
	defer s.hanging.Add(-1)
	io.Copy(io.Discard, r.Body) // a server sees that its client has gone only after that
	<-r.Context().Done()
}

func TestPush(t *testing.T) {
	s := newServer(t)
	args := argumentsTo(s.URL + "/")
	args.ExternalLabels = map[string]string{"env": "prod", "zone": "external"}
	args.Endpoints[0].Headers = map[string]string{"X-Scope-OrgID": "tenant"}
	r := newRig(t, args, testTuning()).run()

	of := labels.FromStrings("__name__", "process_cpu", "service_name", "a", "zone", "own", "empty", "",
		"__container_id__", "c", "__delta__", "false")
	require.NoError(t,
		r.receiver.Appender().Append(context.Background(), of,
			[]*pyroscope.RawSample{{ID: "id of one", RawProfile: []byte("one")}}))
	got := s.receive(t)
	require.Equal(t, "one", got.profile)
	require.Equal(t, "id of one", got.id)
	require.Equal(t,
		map[string]string{"__name__": "process_cpu", "__delta__": "false", "service_name": "a", "env": "prod",
			"zone": "external"}, got.labels)
	require.Equal(t, "/push.v1.PusherService/Push", got.path)
	require.Equal(t, "tenant", got.header.Get("X-Scope-OrgID"))
	require.Equal(t, "application/proto", got.header.Get("Content-Type"))
	require.Regexp(t, `^headwater/\S+$`, got.header.Get("User-Agent"))
	require.NotEmpty(t, got.header.Get("Connect-Timeout-Ms"))
	require.Empty(t, got.header.Get("Content-Encoding"), "profiles are compressed already")

	r.eventually("pyroscope_write_sent_profiles_total", 1)
	require.EqualValues(t, 3, r.metric("pyroscope_write_sent_bytes_total"))
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
	require.EqualValues(t, 2, r.metric("pyroscope_write_latency"), "one attempt, one delivery")
	require.Zero(t, r.metric("pyroscope_write_queue_profiles"))
	require.Equal(t, component.HealthTypeHealthy, r.CurrentHealth().Health)
	require.Regexp(t, `^level=debug .*msg="pushed a profile" service_name=a bytes=3 waited=\S+\n$`, r.log.String())
}

// Each profile goes in a request of its own.
func TestPushesAreNotBatched(t *testing.T) {
	s := newServer(t)
	r := newRig(t, argumentsTo(s.URL), testTuning()).run()
	of := labels.FromStrings("__name__", "process_cpu")
	require.NoError(t, r.receiver.Appender().Append(context.Background(), of,
		[]*pyroscope.RawSample{{RawProfile: []byte("a")}, {RawProfile: []byte("b")}}))
	found := map[string]bool{s.receive(t).profile: true, s.receive(t).profile: true}
	require.Equal(t, map[string]bool{"a": true, "b": true}, found)
	require.Equal(t, 2, s.callCount())
}

func TestNoEndpoints(t *testing.T) {
	newRig(t, Arguments{}, testTuning()).run().append("x")
}

func TestInvalidLabelsAreRefused(t *testing.T) {
	r := newRig(t, Arguments{}, testTuning()).run()
	for why, of := range map[string]labels.Labels{
		"no labels": labels.EmptyLabels(),
		`invalid label name "a-b": only letters, digits, _ and . are allowed`: labels.FromStrings("a-b", "x"),
		"no __name__, which names the type of the profile":                    labels.FromStrings("a", "b"),
		`duplicate label name "a"`: labels.New(labels.Label{Name: "__name__", Value: "x"},
			labels.Label{Name: "a", Value: "1"}, labels.Label{Name: "a", Value: "2"}),
		`value of label "a" is not valid UTF-8: "\xff"`: labels.FromStrings("a", "\xff"),
	} {
		err := r.receiver.Appender().Append(context.Background(), of, nil)
		require.EqualError(t, err, "invalid labels in profile: "+why)
	}
}

// TestRefusedIsUnhealthy has profiles that never arrive: because of their own label, because of a label from the
// configuration, and because the server refuses them while it takes other profiles.
func TestRefusedIsUnhealthy(t *testing.T) {
	s := newServer(t)
	good := labels.FromStrings("__name__", "process_cpu")
	for name, test := range map[string]struct {
		external map[string]string
		of       labels.Labels
		answer   error
		want     string
	}{
		"a label": {nil, labels.FromStrings("__name__", "x", "k8s-app", "x"), nil, `invalid label name "k8s-app"`},
		"a label of our own": {map[string]string{"k8s-cluster": "x"}, good, nil,
			`invalid label name "k8s-cluster"`},
		"the server": {nil, good, connect.NewError(connect.CodeInvalidArgument, errors.New("no")),
			"invalid_argument: no"},
	} {
		t.Run(name, func(t *testing.T) {
			args := argumentsTo(s.URL)
			args.ExternalLabels = test.external
			r := newRig(t, args, testTuning()).run()
			require.Equal(t, component.HealthTypeHealthy, r.CurrentHealth().Health)
			s.set(func(int, *pushRequest) error { return test.answer })
			err := r.receiver.Appender().Append(context.Background(), test.of,
				[]*pyroscope.RawSample{{RawProfile: []byte("x")}})
			var refused *pyroscope.RefusedError
			require.Equal(t, test.answer == nil, errors.As(err, &refused))
			r.eventually("pyroscope_write_drop_reasons_total", 1)
			require.Contains(t, strings.ReplaceAll(r.log.String(), `\"`, `"`), test.want)
			health := r.CurrentHealth()
			require.Equal(t, component.HealthTypeUnhealthy, health.Health)
			require.Contains(t, health.Message, "1 profiles refused since")
			require.Contains(t, health.Message, test.want)
		})
	}
}

// TestRefusalsAreForgotten has an endpoint healthy again when none was refused for a while.
func TestRefusalsAreForgotten(t *testing.T) { synctest.Test(t, testRefusalsAreForgotten) }

func testRefusalsAreForgotten(t *testing.T) {
	var s status
	problem := func() string { text, _ := s.problem(); return text }
	require.Empty(t, problem())
	s.refused(errors.New("one"))
	time.Sleep(refusedFor - time.Second)
	s.succeeded()
	require.Contains(t, problem(), "1 profiles refused since", "others arrive meanwhile")
	s.refused(errors.New("two"))
	time.Sleep(refusedFor - time.Second)
	require.Contains(t, problem(), "2 profiles refused since")
	require.Contains(t, problem(), "the last: two")
	time.Sleep(time.Second)
	text, since := s.problem()
	require.Empty(t, text)
	require.Equal(t, time.Now(), since)
	time.Sleep(time.Hour)
	s.refused(errors.New("three"))
	require.Contains(t, problem(), "1 profiles refused since")
}

// What the codes mean, and that a profile is dropped or arrives accordingly.
func TestRetries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code     connect.Code
		failures int // then the server takes it
		retries  int // configured
		calls    int // expected
		arrives  bool
	}{
		"unavailable":                  {connect.CodeUnavailable, 4, 10, 5, true},
		"internal":                     {connect.CodeInternal, 2, 10, 3, true},
		"data loss":                    {connect.CodeDataLoss, 1, 10, 2, true},
		"aborted":                      {connect.CodeAborted, 1, 10, 2, true},
		"deadline exceeded":            {connect.CodeDeadlineExceeded, 1, 10, 2, true},
		"resource exhausted":           {connect.CodeResourceExhausted, 2, 10, 3, true},
		"retries are used up":          {connect.CodeUnavailable, 99, 2, 3, false},
		"without end":                  {connect.CodeUnavailable, 15, 0, 16, true},
		"unknown is tried a few times": {connect.CodeUnknown, 99, 10, 4, false},
		"unknown, no end configured":   {connect.CodeUnknown, 99, 0, 4, false},
		"invalid argument":             {connect.CodeInvalidArgument, 99, 10, 1, false},
		"unauthenticated":              {connect.CodeUnauthenticated, 99, 10, 1, false},
		"permission denied":            {connect.CodePermissionDenied, 99, 10, 1, false},
		"unimplemented":                {connect.CodeUnimplemented, 99, 10, 1, false},
		"canceled by the server":       {connect.CodeCanceled, 99, 10, 1, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.set(func(call int, _ *pushRequest) error {
				if call <= test.failures {
					return connect.NewError(test.code, errors.New("says the server"))
				}
				return nil
			})
			args := argumentsTo(s.URL)
			args.Endpoints[0].MaxBackoffRetries = test.retries
			r := newRig(t, args, testTuning()).run()
			r.append("profile")
			if test.arrives {
				require.Equal(t, "profile", s.receive(t).profile)
				r.eventually("pyroscope_write_sent_profiles_total", 1)
			} else {
				r.eventually("pyroscope_write_dropped_profiles_total", 1)
				require.EqualValues(t, len("profile"), r.metric("pyroscope_write_dropped_bytes_total"))
			}
			require.Equal(t, test.calls, s.callCount())
			require.EqualValues(t, test.calls-1, r.metric("pyroscope_write_retries_total"))
		})
	}
}

// A proxy between us and Pyroscope answers plain HTTP.
func TestPlainHTTPErrors(t *testing.T) {
	t.Parallel()
	tests := map[int]bool{ // status -> retried
		301: false, 400: false, 401: false, 403: false, 404: false, 413: false,
		408: true, 429: true, 500: true, 502: true, 503: true, 504: true,
	}
	for status, retried := range tests {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				s.wrap(nil) // once
				http.Error(w, "<html>no</html>", status)
			})
			args := argumentsTo(s.URL)
			args.Endpoints[0].HTTPClient.FollowRedirects = false
			r := newRig(t, args, testTuning()).run()
			r.append("profile")
			if retried {
				s.receive(t)
			} else {
				r.eventually("pyroscope_write_dropped_profiles_total", 1)
			}
		})
	}
}

func TestNoRetryOn429(t *testing.T) {
	s := newServer(t)
	s.set(answerCode(connect.CodeResourceExhausted))
	args := argumentsTo(s.URL)
	args.Endpoints[0].RetryOnHTTP429 = false
	r := newRig(t, args, testTuning()).run()
	r.append("profile")
	r.eventually("pyroscope_write_dropped_profiles_total", 1)
	require.Equal(t, 1, s.callCount())
}

// When a server asks for a pause, all senders pause.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(func(call int, _ *pushRequest) error {
		if call > 1 {
			return nil
		}
		err := connect.NewError(connect.CodeResourceExhausted, errors.New("slow down"))
		err.Meta().Set("Retry-After", "1")
		return err
	})
	args := argumentsTo(s.URL)
	args.Endpoints[0].MaxBackoff = time.Minute
	r := newRig(t, args, testTuning()).run()
	start := time.Now()
	r.append("first")
	testkit.Eventually(t, "a pause", func() bool { return r.snapshot()[0].pauseUntil.Load() != 0 })
	r.append("second")
	s.receive(t)
	require.GreaterOrEqual(t, time.Since(start), 900*time.Millisecond)
	s.receive(t)
	require.Equal(t, 3, s.callCount())
}

func TestHostileServers(t *testing.T) {
	t.Parallel()
	hijack := func(t *testing.T, w http.ResponseWriter, answer string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, answer)
		conn.Close()
	}
	tests := map[string]func(t *testing.T, w http.ResponseWriter, r *http.Request){
		"closes at once": func(t *testing.T, w http.ResponseWriter, r *http.Request) { hijack(t, w, "") },
		"closes within the header": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			hijack(t, w, "HTTP/1.1 200 OK\r\nContent-")
		},
		"closes within the body": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			hijack(t, w, "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 100\r\n\r\nabc")
		},
		"speaks no HTTP": func(t *testing.T, w http.ResponseWriter, r *http.Request) { hijack(t, w, "SSH-2.0-OpenSSH\r\n") },
		"is a login page": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>please log in</html>")
		},
		"talks without end": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			for chunk := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		},
		"answers too slowly": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		},
		"dribbles its body": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			for r.Context().Err() == nil {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		},
		"lies in its error": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(503)
			io.WriteString(w, `{"code":"unavailable","message":"`+strings.Repeat("long ", 10_000)+`"}`)
		},
		"sends broken JSON": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(503)
			io.WriteString(w, `{"code":`)
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				io.Copy(io.Discard, r.Body)
				s.wrap(nil) // hostile once
				answer(t, w, r)
			})
			args := argumentsTo(s.URL)
			isSlow := name == "answers too slowly" || name == "dribbles its body"
			if isSlow {
				args.Endpoints[0].RemoteTimeout = 300 * time.Millisecond
				args.Endpoints[0].MaxBackoffRetries = 0 // a busy machine may also be too slow
			}
			tune := testTuning()
			tune.logEvery = time.Hour // the first of a kind, and the rest at the end
			r := newRig(t, args, tune).run()
			r.append("profile")
			require.Equal(t, "profile", s.receive(t).profile)
			r.eventually("pyroscope_write_sent_profiles_total", 1)
			retries := r.metric("pyroscope_write_retries_total")
			require.True(t, retries == 1 || isSlow && retries > 1, "%v retries", retries)
			r.stop()
			require.Less(t, len(r.log.String()), 2000, "a server cannot fill our log")
		})
	}
}

// One endpoint is dead, the other gets everything at once, and whoever appends
// does not notice: who waited for the dead one would wait for an hour.
func TestDeadEndpointBesideALiveOne(t *testing.T) {
	t.Parallel()
	dead, live := newServer(t), newServer(t)
	dead.wrap(dead.hang)
	args := argumentsTo(dead.URL, live.URL)
	args.Endpoints[0].RemoteTimeout = time.Hour
	tune := testTuning()
	tune.queueItems = 5
	tune.flush = 100 * time.Millisecond
	tune.logEvery = time.Hour // the first of a kind, and the rest at the end
	r := newRig(t, args, tune).run()

	const count = 50
	for i := range count {
		appended := make(chan error, 1)
		go func() { appended <- r.tryAppend(fmt.Sprint(i)) }()
		require.Equal(t, fmt.Sprint(i), live.receive(t).profile)
		select {
		case err := <-appended:
			require.NoError(t, err)
		case <-time.After(2 * time.Minute):
			t.Fatal("the dead endpoint holds up Append")
		}
	}
	r.eventually("pyroscope_write_sent_profiles_total", count)
	testkit.Eventually(t, "all senders of the dead endpoint are busy",
		func() bool { return dead.hanging.Load() == int64(tune.senders) })
	dropped := r.metric("pyroscope_write_dropped_profiles_total")
	waiting := r.metric("pyroscope_write_queue_profiles")
	require.EqualValues(t, count-tune.senders, dropped+waiting, "the oldest had to go")
	require.LessOrEqual(t, waiting, float64(tune.queueItems))
	r.stop()
	require.EqualValues(t, count, r.metric("pyroscope_write_dropped_profiles_total"), "all are accounted for")
	require.Zero(t, r.metric("pyroscope_write_queue_profiles"))
	require.Zero(t, r.metric("pyroscope_write_queue_bytes"))
	require.Contains(t, r.log.String(), `msg="dropped profiles, the queue is full"`)
	require.Less(t, strings.Count(r.log.String(), "level=warn"), 20, "counted, not logged one by one")
	for _, e := range r.DebugInfo().(DebugInfo).Endpoints {
		require.EqualValues(t, count, e.Sent+e.Dropped)
	}
}

// The newest profiles are kept while the server is down, and arrive when it is
// back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	args := argumentsTo(s.URL)
	args.Endpoints[0].MaxBackoffRetries = 0
	r := newRig(t, args, testTuning()).run()
	for i := range 20 {
		r.append(fmt.Sprint(i))
	}
	require.Eventually(t, func() bool { return r.CurrentHealth().Health == component.HealthTypeUnhealthy }, 2*time.Minute,
		time.Millisecond)
	health := r.CurrentHealth()
	require.Contains(t, health.Message, "endpoint "+s.URL+": ")
	require.Contains(t, health.Message, "pushes in a row failed since ")
	require.Contains(t, health.Message, "unavailable: says the server")
	require.NotEmpty(t, r.DebugInfo().(DebugInfo).Endpoints[0].LastError)

	s.set(nil)
	found := map[string]bool{}
	for range 20 {
		found[s.receive(t).profile] = true
	}
	require.Len(t, found, 20)
	require.Eventually(t, func() bool { return r.CurrentHealth().Health == component.HealthTypeHealthy }, 2*time.Minute,
		time.Millisecond)
	r.eventually("pyroscope_write_sent_profiles_total", 20)
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
	require.Contains(t, r.log.String(), "endpoint accepts profiles again")
}

func TestOldProfilesAreDropped(t *testing.T) {
	s := newServer(t)
	r := newRig(t, argumentsTo(s.URL), testTuning())
	r.append("old")
	e := r.snapshot()[0]
	old, _ := e.queue.pop(false)
	old.taken = old.taken.Add(-e.tuning.maxAge)
	require.True(t, e.enqueue(old))
	r.run().append("new")
	require.Equal(t, "new", s.receive(t).profile)
	r.eventually("pyroscope_write_dropped_profiles_total", 1)
	require.Equal(t, 1, s.callCount())
}

func TestStopFlushes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(func(int, *pushRequest) error { time.Sleep(5 * time.Millisecond); return nil })
	r := newRig(t, argumentsTo(s.URL), testTuning()).run()
	for i := range 40 {
		r.append(fmt.Sprint(i))
	}
	r.stop()
	require.Len(t, s.pushed, 40)
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
	require.EqualError(t, r.tryAppend("late"), "pyroscope.write.test has exited")
	require.NoError(t, r.Update(argumentsTo(s.URL, "http://127.0.0.1:1")))
	require.Error(t, r.tryAppend("later"))
}

// Profiles that come while we are being stopped still go out.
func TestStopTakesTheLastProfiles(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tune := testTuning()
	for tune.grace = 300 * time.Millisecond; tune.grace < time.Minute; tune.grace *= 2 {
		r := newRig(t, argumentsTo(s.URL), tune).run()
		stopped := time.Now()
		r.cancel()
		time.Sleep(20 * time.Millisecond)
		err := r.tryAppend("last")
		late := time.Since(stopped) >= tune.grace // the machine does much else: it may be too late
		r.stop()
		if late && err != nil {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "last", s.receive(t).profile)
		return
	}
	t.Fatal("no profile came in time")
}

// A stop while the endpoint is down takes no longer than the flush may: neither pushes nor
// waits end by themselves.
func TestStopWhileDown(t *testing.T) {
	s := newServer(t)
	s.wrap(s.hang)
	tune := testTuning()
	tune.flush = 200 * time.Millisecond
	args := argumentsTo(s.URL, "http://127.0.0.1:1")
	args.Endpoints[0].RemoteTimeout = time.Hour
	args.Endpoints[1].MinBackoff, args.Endpoints[1].MaxBackoff = time.Hour, time.Hour
	r := newRig(t, args, tune).run()
	for range 10 {
		r.append("x")
	}
	time.Sleep(20 * time.Millisecond)
	r.stop() // it would take an hour
	require.EqualValues(t, 20, r.metric("pyroscope_write_dropped_profiles_total"))
}

// A profile in a long wait gets one more chance when the component stops.
func TestStopWakesRetries(t *testing.T) {
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	args := argumentsTo(s.URL)
	args.Endpoints[0].MinBackoff, args.Endpoints[0].MaxBackoff = time.Hour, time.Hour
	r := newRig(t, args, testTuning()).run()
	r.append("x")
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "trying again") }, 2*time.Minute,
		time.Millisecond)
	s.set(nil)
	r.stop()
	require.Equal(t, "x", s.receive(t).profile)
}

func TestUpdateKeepsQueues(t *testing.T) {
	s, other := newServer(t), newServer(t)
	s.set(func(_ int, r *pushRequest) error {
		if r.Header().Get("Authorization") != "Bearer right" {
			return connect.NewError(connect.CodeUnavailable, errors.New("not yet"))
		}
		return nil
	})
	args := argumentsTo(s.URL)
	args.Endpoints[0].MinBackoff, args.Endpoints[0].MaxBackoff = time.Hour, time.Hour
	args.Endpoints[0].HTTPClient.BearerToken = "wrong"
	r := newRig(t, args, testTuning()).run()
	for i := range 10 {
		r.append(fmt.Sprint(i))
	}
	before, receiver := r.snapshot()[0], r.receiver

	same := argumentsTo(other.URL, s.URL)
	same.Endpoints[1] = args.Endpoints[0]
	require.NoError(t, r.Update(same))
	require.Same(t, before, r.snapshot()[1])

	right := argumentsTo(s.URL)
	right.ExternalLabels = map[string]string{"env": "prod"}
	right.Endpoints[0].HTTPClient.BearerToken = "right"
	require.NoError(t, r.Update(right))
	require.Same(t, before, r.snapshot()[0])
	require.Same(t, receiver, r.receiver)
	found := map[string]bool{}
	for range 10 {
		found[s.receive(t).profile] = true
	}
	require.Len(t, found, 10, "those that waited use the new token at once")
	r.append("new")
	require.Equal(t, "prod", s.receive(t).labels["env"])
}

func TestUpdateWithBadArgumentsChangesNothing(t *testing.T) {
	s := newServer(t)
	r := newRig(t, argumentsTo(s.URL), testTuning()).run()
	bad := argumentsTo("http://127.0.0.1:1", "http://127.0.0.1:2")
	bad.Endpoints[1].HTTPClient.TLS.CAFile = "/no/such/ca.pem"
	require.ErrorContains(t, r.Update(bad), "endpoint http://127.0.0.1:2: ")
	r.append("x")
	require.Equal(t, "x", s.receive(t).profile)
	require.Len(t, r.snapshot(), 1)
}

// A removed endpoint still sends its queued profiles.
func TestUpdateFlushesRemovedEndpoints(t *testing.T) {
	s := newServer(t)
	s.set(func(int, *pushRequest) error { time.Sleep(20 * time.Millisecond); return nil })
	r := newRig(t, argumentsTo(s.URL), testTuning()).run()
	r.append("x")
	s.receive(t) // runs
	for range 10 {
		r.append("x")
	}
	require.NoError(t, r.Update(Arguments{}))
	for range 10 {
		s.receive(t)
	}
	r.append("nowhere")
}

// Update and Append at any time, with the race detector looking on.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s, other := newServer(t), newServer(t)
	r := newRig(t, argumentsTo(s.URL), testTuning()).run()
	updates := make(chan struct{})
	go func() {
		defer close(updates)
		for i := range 60 {
			args := argumentsTo(s.URL, other.URL)
			args.Endpoints[0].MaxBackoffRetries = i
			if i%3 == 0 {
				args = argumentsTo(s.URL)
			}
			if err := r.Update(args); err != nil {
				t.Error(err)
			}
			r.CurrentHealth()
			r.DebugInfo()
		}
	}()
	for i := range 300 {
		r.tryAppend(fmt.Sprint(i)) // may name an endpoint that is just being removed
	}
	<-updates
	r.stop()
	require.Len(t, s.pushed, 300, "the endpoint that stayed got them all")
}

// Build starts no work before Run.
func TestBuildOnly(t *testing.T) {
	s := newServer(t)
	r := newRig(t, argumentsTo(s.URL), testTuning())
	r.append("x")
	require.NoError(t, r.Update(argumentsTo(s.URL, s.URL+"/two")))
	time.Sleep(50 * time.Millisecond)
	require.Zero(t, s.callCount())
	r.run()
	require.Equal(t, "x", s.receive(t).profile)
}

// Neither log, health nor debug info nor metrics show a secret.
func TestSecretsStaySecret(t *testing.T) {
	s := newServer(t)
	s.set(answerCode(connect.CodeUnauthenticated))
	host := strings.TrimPrefix(s.URL, "http://")
	args := argumentsTo("http://user:hunter2@"+host, "http://user:hunter2@127.0.0.1:1")
	args.Endpoints[0].Headers = map[string]string{"X-Key": "hunter2"}
	args.Endpoints[1].MaxBackoffRetries = 3
	r := newRig(t, args, testTuning()).run()
	for range 3 {
		r.append("x")
	}
	r.eventually("pyroscope_write_dropped_profiles_total", 6)
	health := r.CurrentHealth().Message
	require.Contains(t, health, "http://user:xxxxx@"+host)
	families, err := r.registry.Gather()
	require.NoError(t, err)
	r.stop()
	all := health + r.log.String() + fmt.Sprint(families, r.DebugInfo())
	require.NotContains(t, all, "hunter2")
}

// A component that has ended leaves no goroutine and no connection.
func TestStopLeavesNothingBehind(t *testing.T) {
	s := newServer(t)
	before := runtime.NumGoroutine()
	r := newRig(t, argumentsTo(s.URL, "http://127.0.0.1:1"), testTuning()).run()
	for range 20 {
		r.append("x")
	}
	s.receive(t)
	require.NoError(t, r.Update(argumentsTo(s.URL)))
	r.stop()
	s.CloseClientConnections() // the server's side of it
	for deadline := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// A profile that is too big to be decoded is refused and counted.
func TestBombsAreRefused(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	out := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 70 {
		_, err := out.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	s := newServer(t)
	r := newRig(t, argumentsTo(s.URL), testTuning()).run()
	of := labels.FromStrings("__name__", "process_cpu")
	err := r.receiver.Appender().Append(context.Background(), of,
		[]*pyroscope.RawSample{{RawProfile: bomb.Bytes()}, {RawProfile: []byte("good")}})
	require.EqualError(t, err, "profile of more than 64 MiB uncompressed")
	require.Equal(t, "good", s.receive(t).profile)
	require.EqualValues(t, 1, r.metric("pyroscope_write_drop_reasons_total"))
}
