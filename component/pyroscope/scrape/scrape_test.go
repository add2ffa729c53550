package scrape

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/pprof/profile"
	"github.com/grafana/river"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/pyroscope"
)

func decode(t *testing.T, text string) Arguments {
	t.Helper()
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte("targets = []\nforward_to = []\n"+text), &args))
	return args
}

// receiver keeps the newest profile of each kind.
type receiver struct {
	mu  sync.Mutex
	got map[string]labels.Labels
	raw map[string][]byte
}

func (r *receiver) append(_ context.Context, l labels.Labels, samples []*pyroscope.RawSample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[l.Get("__name__")], r.raw[l.Get("__name__")] = l, samples[0].RawProfile
	return nil
}

// TestScrape fetches all kinds that a Go program serves.
func TestScrape(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/app/debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/app")
		pprof.Index(w, r)
	})
	var mu sync.Mutex
	var seconds, parameter string
	mux.HandleFunc("/app/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seconds, parameter = r.URL.Query().Get("seconds"), r.URL.Query().Get("x")
		mu.Unlock()
		pprof.Profile(w, r)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	r := &receiver{got: map[string]labels.Labels{}, raw: map[string][]byte{}}
	args := decode(t, `
		scrape_interval = "2s"
		scrape_timeout  = "1m"
		params          = {"x" = ["y"]}
		profiling_config {
			path_prefix = "/app"
			profile.custom "threads" {
				enabled = true
				path    = "/debug/pprof/threadcreate"
			}
			profile.custom "broken" {
				enabled = true
				path    = "/nothing"
			}
		}`)
	address := strings.TrimPrefix(server.URL, "http://")
	args.Targets = []discovery.Target{{"__address__": address, "env": "test", "__meta_docker_container_name": "/web"},
		{"env": "lost"}}
	args.ForwardTo = []pyroscope.Appendable{pyroscope.AppendableFunc(r.append)}
	c, err := New(component.Options{ID: "pyroscope.scrape.x", Logger: log.NewNopLogger()}, args)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	kinds := []string{"memory", "goroutine", "process_cpu", "threads", "block", "mutex"}
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.got) == len(kinds)
	}, 2*time.Minute, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-done)

	for _, name := range kinds {
		want := map[string]string{"__name__": name, "job": "pyroscope.scrape.x", "instance": address, "env": "test",
			"service_name": "/web"}
		if name == "memory" || name == "block" || name == "mutex" {
			want["__delta__"] = "false"
		}
		require.Equal(t, want, r.got[name].Map())
		_, err := profile.ParseData(r.raw[name])
		require.NoError(t, err, name)
	}
	require.Equal(t, "1", seconds)
	require.Equal(t, "y", parameter)

	info := c.DebugInfo().(DebugInfo)
	require.Len(t, info.Targets, len(kinds)+1)
	require.Equal(t, []string{"target 2: it has no __address__"}, info.Errors)
	health := map[string]string{}
	for _, target := range info.Targets {
		health[target.Labels["__name__"]] = target.Health
		if target.Labels["__name__"] == "broken" && target.Health == "down" {
			require.Contains(t, target.LastError, "404")
		}
	}
	require.Equal(t, "up", health["goroutine"])
}

// TestTwice has kinds that a server adds up because they have one name.
func TestTwice(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"profile.godeltaprof_memory { enabled = true }": {
			`profile.memory and profile.godeltaprof_memory are both sent as "memory", so the server adds ` +
				`their values up: set enabled = false in one`},
		"profile.memory { enabled = false }\nprofile.godeltaprof_memory { enabled = true }": nil,
		"profile.godeltaprof_mutex { enabled = true }\nprofile.godeltaprof_block { enabled = true }": {
			`profile.block and profile.godeltaprof_block are both sent as "block", so the server adds ` +
				`their values up: set enabled = false in one`,
			`profile.mutex and profile.godeltaprof_mutex are both sent as "mutex", so the server adds ` +
				`their values up: set enabled = false in one`},
		"profile.custom \"goroutine\" {\nenabled = true\npath = \"/g\"\n}": {
			`profile.goroutine and profile.custom "goroutine" are both sent as "goroutine", so the server adds ` +
				`their values up: set enabled = false in one`},
	} {
		args := decode(t, "profiling_config {\n"+text+"\n}")
		require.Equal(t, want, args.Profiling.twice(), text)
		c, err := New(component.Options{ID: "x", Logger: log.NewNopLogger()}, args)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		require.Eventually(t, func() bool { return slices.Equal(want, c.DebugInfo().(DebugInfo).CountedTwice) },
			2*time.Minute, time.Millisecond)
		for _, message := range want {
			require.Contains(t, c.CurrentHealth().Message, message)
		}
		require.Equal(t, component.HealthTypeHealthy, c.CurrentHealth().Health)
		cancel()
		require.NoError(t, <-done)
	}
}

// TestRefusedIsUnhealthy has a receiver that takes no profile.
func TestRefusedIsUnhealthy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(pprof.Index))
	defer server.Close()
	args := decode(t, "scrape_interval = \"100ms\"\nprofiling_config {\nprofile.process_cpu { enabled = false }\n}")
	args.Targets = []discovery.Target{{"__address__": strings.TrimPrefix(server.URL, "http://")}}
	var answer atomic.Pointer[pyroscope.RefusedError]
	answer.Store(&pyroscope.RefusedError{Err: errors.New("no such tenant")})
	args.ForwardTo = []pyroscope.Appendable{pyroscope.AppendableFunc(
		func(context.Context, labels.Labels, []*pyroscope.RawSample) error {
			if err := answer.Load(); err != nil {
				return err
			}
			return nil
		})}
	c, err := New(component.Options{ID: "x", Logger: log.NewNopLogger()}, args)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	require.Eventually(t, func() bool { return c.CurrentHealth().Health == component.HealthTypeUnhealthy },
		2*time.Minute, time.Millisecond)
	require.Contains(t, c.CurrentHealth().Message, "no such tenant")
	answer.Store(nil)
	require.Eventually(t, func() bool { return c.CurrentHealth().Health == component.HealthTypeHealthy },
		2*time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

func TestUpdateKeepsLoops(t *testing.T) {
	args := decode(t, `scrape_interval = "1h"`)
	args.Targets = []discovery.Target{{"__address__": "a:1"}, {"__address__": "b:1"}}
	c, err := New(component.Options{ID: "x", Logger: log.NewNopLogger()}, args)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	loops := func() map[string]*loop {
		c.mu.Lock()
		defer c.mu.Unlock()
		out := map[string]*loop{}
		for _, l := range c.loops {
			out[l.endpoint.url] = l
		}
		return out
	}
	require.Eventually(t, func() bool { return len(loops()) == 10 }, 2*time.Minute, time.Millisecond)
	kept := loops()["http://a:1/debug/pprof/allocs"]
	args.Targets = args.Targets[:1]
	require.NoError(t, c.Update(args))
	require.Eventually(t, func() bool { return len(loops()) == 5 }, 2*time.Minute, time.Millisecond)
	require.Same(t, kept, loops()["http://a:1/debug/pprof/allocs"])
	args.ScrapeInterval *= 2
	require.NoError(t, c.Update(args))
	require.Eventually(t, func() bool {
		l := loops()["http://a:1/debug/pprof/allocs"]
		return l != nil && l != kept
	}, 2*time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Error(t, c.Update(1))
}

// counted returns a heap profile of one stack.
func counted(t *testing.T, objects, inuse int64) []byte {
	t.Helper()
	f := &profile.Function{ID: 1, Name: "f"}
	loc := &profile.Location{ID: 1, Line: []profile.Line{{Function: f}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "inuse_objects", Unit: "count"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{loc}, Value: []int64{objects, inuse}}},
		Location:   []*profile.Location{loc}, Function: []*profile.Function{f}, TimeNanos: objects,
	}
	var out bytes.Buffer
	require.NoError(t, p.Write(&out))
	return out.Bytes()
}

func TestDelta(t *testing.T) {
	var d delta
	next := func(objects, inuse int64) []int64 {
		raw, err := d.nextProfile(counted(t, objects, inuse))
		require.NoError(t, err)
		if raw == nil {
			return nil
		}
		p, err := profile.ParseData(raw)
		require.NoError(t, err)
		if len(p.Sample) == 0 {
			return []int64{}
		}
		return p.Sample[0].Value
	}
	require.Nil(t, next(100, 5), "nothing to compare with")
	require.Equal(t, []int64{20, 7}, next(120, 7), "what is in use is of the moment")
	require.Equal(t, []int64{0, 3}, next(120, 3))
	require.Equal(t, []int64{}, next(120, 0))
	require.Equal(t, []int64{10, 1}, next(10, 1), "started again")
	_, err := d.nextProfile([]byte("no profile"))
	require.Error(t, err)
	require.Nil(t, next(20, 1))
}

func TestEndpoints(t *testing.T) {
	args := decode(t, `scheme = "https"
		profiling_config {
			profile.godeltaprof_memory {
				enabled = true
				path    = "/delta"
			}
			profile.memory {
				enabled = false
			}
		}`)
	args.Targets = []discovery.Target{
		{"__address__": "h", "__scheme__": "http", "__param_a": "b", "__profile_path_prefix__": "/p"},
		{"__address__": "[::1]", "__profile_path__": "/own", "__name__": "mine", "service_name": "s"},
		{"__address__": "bad/address"},
	}
	all, errs := endpoints(args)
	require.Len(t, errs, 1)
	urls := map[string]bool{}
	for _, e := range all {
		urls[e.url] = true
	}
	require.Contains(t, urls, "http://h:80/p/delta?a=b")
	require.Contains(t, urls, "http://h:80/p/debug/pprof/profile?a=b&seconds=14")
	require.Contains(t, urls, "https://[::1]:443/own")
}

func TestArguments(t *testing.T) {
	args := decode(t, "")
	require.Equal(t, 15*time.Second, args.ScrapeInterval)
	require.Equal(t, 24*time.Second, args.timeout(kind{Profile: Profile{Delta: true}}))
	for text, want := range map[string]string{
		`scrape_timeout = "0s"`:                                            "scrape_timeout",
		`scrape_interval = "1s"`:                                           "at least 2 seconds",
		`delta_profiling_duration = "15s"`:                                 "must be longer than delta_profiling_duration",
		`scheme = "ftp"`:                                                   "scheme must be",
		"bearer_token = \"a\"\nbearer_token_file = \"b\"":                  "at most one of",
		"profiling_config {\nprofile.custom \"x\" {\nenabled = true\n}\n}": "path",
	} {
		var args Arguments
		require.ErrorContains(t, river.Unmarshal([]byte("targets = []\nforward_to = []\n"+text), &args), want, text)
	}
}

// TestClusteringIsNotSilent: without a cluster, each replica scrapes every target.
func TestClusteringIsNotSilent(t *testing.T) {
	var logged bytes.Buffer
	args := decode(t, "clustering { enabled = true }")
	c, err := New(component.Options{ID: "x", Logger: log.NewLogfmtLogger(&logged)}, args)
	require.NoError(t, err)
	require.NoError(t, c.Update(args))
	require.Equal(t, 1, strings.Count(logged.String(), "argument clustering.enabled has no effect in Headwater"))
	require.Len(t, args.Warnings(), 1)
	args = decode(t, "clustering { enabled = false }")
	require.Empty(t, args.Warnings())
}
