package ebpf

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/grafana/river/encoding/riverjson"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/testkit"
)

func TestForwardsProfiles(t *testing.T) {
	first, second := &fakeReceiver{}, &fakeReceiver{}
	l := newLab(t, fastArgs(first, nil, second))
	require.Equal(t, component.HealthTypeUnknown, l.CurrentHealth().Health)
	stop := l.run(t)
	testkit.Eventually(t, "profiles at both receivers", func() bool { return first.count() > 3 && second.count() > 3 })
	require.NoError(t, stop())

	require.Equal(t, labels.FromStrings("__name__", "process_cpu", "service_name", "svc", "zone", "a"), first.labels[0])
	p, err := profile.ParseData(first.raw[0])
	require.NoError(t, err)
	require.Equal(t, "main", p.Sample[0].Location[0].Line[0].Function.Name)

	s := l.session(t, 0)
	require.True(t, s.isClosed())
	require.EqualValues(t, s.collects, first.count(), "every round reached the receiver, the last one too")
	require.Regexp(t, `level=debug msg="collected a profile" service_name=svc samples=\d+ complete=\d+ of=\d+ `+
		`processes=\d+ bytes=\d+\n`, l.log.String())
	require.Regexp(t, `level=debug msg=collected profiles=1 of_time=\S+ took=\S+\n`, l.log.String())
}

func TestLastRoundIsFlushed(t *testing.T) {
	receiver := &fakeReceiver{}
	args := fastArgs(receiver)
	args.Settings.CollectInterval = time.Hour
	l := newLab(t, args)
	stop := l.run(t)
	l.session(t, 0)
	require.NoError(t, stop())
	require.Equal(t, 1, receiver.count())
	require.Equal(t, component.HealthTypeExited, l.CurrentHealth().Health)
}

func TestStartFailureEndsRun(t *testing.T) {
	l := newLab(t, fastArgs())
	l.setStartErr(errors.New("profiling needs the capabilities CAP_BPF and CAP_PERFMON"))
	err := l.Run(context.Background())
	require.EqualError(t, err, "profiling needs the capabilities CAP_BPF and CAP_PERFMON")
	health := l.CurrentHealth()
	require.Equal(t, component.HealthTypeUnhealthy, health.Health)
	require.Equal(t, err.Error(), health.Message)
	require.NoError(t, l.Update(fastArgs()), "Update works without Run")
	require.NoError(t, l.Update(fastArgs()))
}

func TestSlowReceiverDoesNotStopCollecting(t *testing.T) {
	slow := &fakeReceiver{block: make(chan struct{})}
	l := newLab(t, fastArgs(slow))
	stop := l.run(t)
	s := l.session(t, 0)
	s.mu.Lock()
	s.services = strings.Fields(strings.Repeat("svc ", 40))
	s.mu.Unlock()
	testkit.Eventually(t, "drops are counted", func() bool { return l.own().dropped > 0 })
	testkit.Eventually(t, "a log line", func() bool { return strings.Contains(l.log.String(), "receivers are too slow") })

	close(slow.block) // it recovers: what waited is sent
	testkit.Eventually(t, "profiles arrive again", func() bool { return slow.count() > queueProfiles/2 })
	require.NoError(t, stop())
	require.Equal(t, valueOf(t, l.metrics.services.pprofs.WithLabelValues("svc")),
		float64(slow.count())+float64(l.own().dropped), "sent or counted")
}

func TestDeadReceiverDelaysTheEndBriefly(t *testing.T) {
	dead := &fakeReceiver{block: make(chan struct{})}
	args := fastArgs(dead)
	args.Settings.CollectInterval = time.Hour
	l := newLab(t, args)
	stop := l.run(t)
	l.session(t, 0)
	begin := time.Now()
	require.NoError(t, stop())
	require.Less(t, time.Since(begin), flushTimeout+time.Minute) // the receiver would never answer
	require.EqualValues(t, 1, l.own().dropped)
}

func TestReceiverErrorsAreLoggedAndCounted(t *testing.T) {
	l := newLab(t, fastArgs(&fakeReceiver{err: errors.New("no such tenant")}))
	stop := l.run(t)
	testkit.Eventually(t, "a log line", func() bool { return strings.Contains(l.log.String(), "no such tenant") })
	testkit.Eventually(t, "to be unhealthy", func() bool {
		h := l.CurrentHealth()
		return h.Health == component.HealthTypeUnhealthy && strings.Contains(h.Message, "no such tenant")
	})
	require.NoError(t, stop())
	made := valueOf(t, l.metrics.services.pprofs.WithLabelValues("svc"))
	require.EqualValues(t, made, l.own().lost[lostToRefusal], "each profile")
	require.EqualValues(t, made, l.DebugInfo().(DebugInfo).Session.ProfilesLost[lostToRefusal])
}

// One of two profiles cannot be encoded: it is counted, and the other one is sent.
func TestEncodingErrorsAreCounted(t *testing.T) {
	receiver := &fakeReceiver{}
	args := fastArgs(receiver)
	args.Settings.CollectInterval = time.Hour
	l := newLab(t, args)
	encode := l.encode
	var calls int
	l.encode = func(p *profile.Profile) ([]byte, error) {
		if calls++; calls == 1 {
			return nil, errors.New("no room left")
		}
		return encode(p)
	}
	stop := l.run(t)
	s := l.session(t, 0)
	s.mu.Lock()
	s.services = []string{"bad", "good"}
	s.mu.Unlock()
	require.NoError(t, stop())
	require.EqualValues(t, 1, l.own().lost[lostToEncoding])
	require.EqualValues(t, 1, l.DebugInfo().(DebugInfo).Session.ProfilesLost[lostToEncoding])
	require.Contains(t, l.log.String(), `msg="a profile is lost" service_name=bad err="no room left"`)
	require.Equal(t, 1, receiver.count())
	require.Equal(t, "good", receiver.labels[0].Get("service_name"))
}

func TestUpdateAppliesTheNewest(t *testing.T) {
	first, second := &fakeReceiver{}, &fakeReceiver{}
	l := newLab(t, fastArgs(first))
	for rate := range 50 { // before Run
		args := fastArgs(first)
		args.Settings.SampleRate = rate + 1
		require.NoError(t, l.Update(args))
	}
	l.run(t)
	s := l.session(t, 0)
	require.Equal(t, 50, s.newest().SampleRate)

	for rate := range 500 {
		args := fastArgs(second)
		args.Settings.SampleRate = rate + 1
		args.Settings.Targets = []map[string]string{{"__process_pid__": "7"}}
		require.NoError(t, l.Update(args))
	}
	testkit.Eventually(t, "newest options",
		func() bool { return s.newest().SampleRate == 500 && len(s.newest().Targets) == 1 })
	testkit.Eventually(t, "new receiver", func() bool { return second.count() > 2 })
	require.EqualValues(t, 1, l.own().targets)
	testkit.Eventually(t, "health",
		func() bool { return strings.HasPrefix(l.CurrentHealth().Message, "profiling 1 target and all other") })
}

func TestUpdateOfTheInterval(t *testing.T) {
	receiver := &fakeReceiver{}
	args := fastArgs(receiver)
	args.Settings.CollectInterval = time.Hour
	l := newLab(t, args)
	l.run(t)
	s := l.session(t, 0)
	time.Sleep(10 * time.Millisecond)
	require.Zero(t, receiver.count())
	require.NoError(t, l.Update(fastArgs(receiver)))
	testkit.Eventually(t, "collecting every few milliseconds", func() bool { return receiver.count() > 2 })
	require.Len(t, s.options, 1, "the session need not know")
}

func TestFailedUpdateIsTriedAgain(t *testing.T) {
	l := newLab(t, fastArgs())
	l.run(t)
	s := l.session(t, 0)
	s.mu.Lock()
	s.updateErr = errors.New("out of file descriptors")
	s.mu.Unlock()
	args := fastArgs()
	args.Settings.SampleRate = 11
	require.NoError(t, l.Update(args))
	testkit.Eventually(t, "unhealthy", func() bool { return l.CurrentHealth().Health == component.HealthTypeUnhealthy })
	require.Contains(t, l.CurrentHealth().Message, "applying new arguments: out of file descriptors")

	s.mu.Lock()
	s.updateErr = nil
	s.mu.Unlock()
	testkit.Eventually(t, "healthy again", func() bool { return l.CurrentHealth().Health == component.HealthTypeHealthy })
	require.Equal(t, 11, s.newest().SampleRate)
}

// TestUnattachedIsUnhealthy: samples that are configured and not taken make the component unhealthy, and it says why.
func TestUnattachedIsUnhealthy(t *testing.T) {
	args := fastArgs()
	args.Settings.ProbeLinks = []string{"uprobe:/bin/shop:buy", "uprobe:/bin/shop:sell"}
	l := newLab(t, args)
	l.run(t)
	s := l.session(t, 0)
	set := func(stats ebpf.Stats) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats = &stats
	}
	unhealthy := func(message string) {
		t.Helper()
		testkit.Eventually(t, message, func() bool {
			health := l.CurrentHealth()
			return health.Health == component.HealthTypeUnhealthy && health.Message == message
		})
	}
	var stats ebpf.Stats
	stats.Probes.Attached, stats.Probes.Failed, stats.Probes.Failure = 1, 1, errors.New("no function buy")
	set(stats)
	unhealthy("1 of the 2 probe_links are not attached: no function buy")
	stats.Heap.Failed, stats.Heap.Failure = 2, errors.New("permission denied")
	set(stats)
	unhealthy("1 of the 2 probe_links are not attached: no function buy; memory in use is not sampled: permission denied")
	stats.Probes.Failed, stats.Heap.Files = 0, 1
	set(stats)
	testkit.Eventually(t, "healthy", func() bool { return l.CurrentHealth().Health == component.HealthTypeHealthy })
}

func TestUpdateRefusesOtherTypes(t *testing.T) {
	l := newLab(t, fastArgs())
	require.EqualError(t, l.Update("x"), "arguments of pyroscope.ebpf are a string")
}

func TestCollectErrorIsUnhealthyUntilItWorks(t *testing.T) {
	l := newLab(t, fastArgs())
	l.run(t)
	s := l.session(t, 0)
	s.mu.Lock()
	s.collectErr = errors.New("map gone")
	s.mu.Unlock()
	testkit.Eventually(t, "unhealthy", func() bool { return l.CurrentHealth().Health == component.HealthTypeUnhealthy })
	require.Equal(t, "collecting profiles: map gone", l.CurrentHealth().Message)
	s.mu.Lock()
	s.collectErr = nil
	s.mu.Unlock()
	testkit.Eventually(t, "healthy", func() bool { return l.CurrentHealth().Health == component.HealthTypeHealthy })
	require.Positive(t, l.own().failures)
}

func TestFailedSessionIsStartedAgain(t *testing.T) {
	receiver := &fakeReceiver{}
	l := newLab(t, fastArgs(receiver))
	l.run(t)
	s := l.session(t, 0)
	testkit.Eventually(t, "profiles", func() bool { return receiver.count() > 0 })
	l.setStartErr(errors.New("still no memory"))
	s.fail(errors.New("ring buffer closed"))
	testkit.Eventually(t, "unhealthy with the reason",
		func() bool { return l.CurrentHealth().Message == "the profiler failed: ring buffer closed" })

	require.Equal(t, component.HealthTypeUnhealthy, l.CurrentHealth().Health)
	testkit.Eventually(t, "closed", s.isClosed)
	testkit.Eventually(t, "retried",
		func() bool { return l.CurrentHealth().Message == "starting the profiler again: still no memory" })

	args := fastArgs(receiver)
	args.Settings.SampleRate = 33
	require.NoError(t, l.Update(args))
	l.setStartErr(nil)
	again := l.session(t, 1)
	require.Equal(t, 33, again.newest().SampleRate)
	before := receiver.count()
	testkit.Eventually(t, "profiles again", func() bool { return receiver.count() > before })
	require.Equal(t, component.HealthTypeHealthy, l.CurrentHealth().Health)

	again.mu.Lock()
	defer again.mu.Unlock()
	require.GreaterOrEqual(t, l.sessionsStats().Expected, 10*(s.collects+again.collects)-10, "counters go on")
}

func TestWarnsOncePerLoad(t *testing.T) {
	load := func(text string) Arguments {
		args, err := decode(t, "forward_to = []\n"+text)
		require.NoError(t, err)
		return args
	}
	l := newLab(t, load("pid_cache_size = 8\nruby_enabled = true\ntargets = [{\"a\" = \"b\"}]"))
	require.Equal(t, 1, strings.Count(l.log.String(), "argument pid_cache_size has no effect in Headwater"))
	require.Equal(t, 1, strings.Count(l.log.String(), "argument ruby_enabled has no effect in Headwater"))
	require.Equal(t, 1, strings.Count(l.log.String(), "No targets found"))

	require.NoError(t, l.Update(load("pid_cache_size = 8\nverbose_mode = true")))
	require.Equal(t, 1, strings.Count(l.log.String(), "argument pid_cache_size"))
	require.Equal(t, 1, strings.Count(l.log.String(), "argument verbose_mode"))
	require.NoError(t, l.Update(load("")))
	require.NoError(t, l.Update(load("pid_cache_size = 8")))
	require.Equal(t, 2, strings.Count(l.log.String(), "argument pid_cache_size"), "it was gone and came back")
}

func TestDebugInfo(t *testing.T) {
	args := fastArgs(&fakeReceiver{})
	args.Settings.Targets = []map[string]string{{"__process_pid__": "7", "service_name": "seven"}, {"nothing": "usable"}}
	l := newLab(t, args)
	_, err := riverjson.MarshalBody(l.DebugInfo())
	require.NoError(t, err)
	l.run(t)
	testkit.Eventually(t, "rounds", func() bool { return l.DebugInfo().(DebugInfo).Session.Rounds > 1 })

	info := l.DebugInfo().(DebugInfo)
	require.Len(t, info.Targets, 1)
	require.Contains(t, info.Targets[0], "seven")
	require.Equal(t, "/bin/x", info.Ended[0].File)
	text, err := riverjson.MarshalBody(info)
	require.NoError(t, err)
	require.Contains(t, string(text), `"unwind_table_bytes"`)
	text, err = riverjson.MarshalBody(args)
	require.NoError(t, err)
	require.Contains(t, string(text), `"collect_interval"`)
}

func TestPageShowsTheProfiles(t *testing.T) {
	args := fastArgs(&fakeReceiver{})
	args.Settings.PIDLabel, args.Settings.ThreadNameLabel = true, true
	l := newLab(t, args)
	page := func() string {
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Body.String()
	}
	require.Contains(t, page(), "not started yet")
	stop := l.run(t)
	testkit.Eventually(t, "the target's name", func() bool { return strings.Contains(page(), ">svc</a>") })
	require.NoError(t, stop())
	body := page()
	require.Contains(t, body, ">svc</a>", "also after the end")
	require.Contains(t, body, "<option>pid</option>")
	require.Contains(t, body, "<option>thread_name</option>")
	require.Contains(t, body, "/bin/x")
}

func TestRegistration(t *testing.T) {
	registry, err := component.NewRegistry(Registration())
	require.NoError(t, err)
	_, found := registry.Get("pyroscope.ebpf")
	require.True(t, found)
}
