package write

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// queued returns arguments with a queue.
func queued(urls ...string) Arguments {
	args := argumentsTo(urls...)
	args.Queue = &QueueOptions{}
	args.Queue.SetToDefault()
	args.Queue.Fsync = fsyncNever
	return args
}

func queueTuning() tuning {
	t := testTuning()
	t.probeEvery, t.retryDisk = 40*time.Millisecond, 10*time.Millisecond
	return t
}

// newQueueRig is newRig for a component whose data are in dir.
func newQueueRig(t *testing.T, dir string, args Arguments, tune tuning) *rig {
	t.Helper()
	r := &rig{t: t, registry: prometheus.NewRegistry(), log: &logBuffer{}, done: make(chan error, 1)}
	opts := component.Options{
		ID:            "pyroscope.write.test",
		DataPath:      dir,
		Logger:        log.NewLogfmtLogger(r.log),
		Registerer:    r.registry,
		OnStateChange: func(e component.Exports) { r.receiver = e.(Exports).Receiver },
	}
	var err error
	r.Component, err = newComponent(opts, args, tune)
	require.NoError(t, err)
	return r
}

// runNow is run, and waits until the queues are on disk.
func (r *rig) runNow() *rig {
	r.t.Helper()
	r.run()
	require.Eventually(r.t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.phase == running
	}, 2*time.Minute, time.Millisecond)
	return r
}

// numbers returns n profiles that contain their number.
func numbers(from, n int) []string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprint(from+i))
	}
	return texts
}

// receiveAll returns the next n profiles that arrive.
func (s *server) receiveAll(t *testing.T, n int) []string {
	t.Helper()
	var got []string
	for range n {
		got = append(got, s.receive(t).profile)
	}
	return got
}

// Profiles wait while the server is away, over a restart too, and arrive in order.
func TestQueueKeepsOrderOverARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	dir := t.TempDir()
	r := newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	r.append(numbers(0, 30)...)
	require.NoError(t, r.receiver.Appender().AppendIngest(context.Background(), incoming(t, "/ingest?from=1", "old")))
	r.stop()
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
	require.Contains(t, r.log.String(), `msg="profiles stay in the queue on disk" profiles=31`)

	s.answerIngest = nil
	s.set(nil)
	r = newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	r.append(numbers(30, 10)...)
	require.Equal(t, append(append(numbers(0, 30), "old"), numbers(30, 10)...), s.receiveAll(t, 41))
	r.eventually("pyroscope_write_sent_profiles_total", 41)
	r.eventually("pyroscope_write_queue_profiles", 0)
	require.Zero(t, r.metric("pyroscope_write_queue_bytes"))
	require.Contains(t, r.log.String(), `msg="profiles of an earlier run wait in the queue" profiles=31`)
	r.stop()
	r = newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	r.append("new")
	require.Equal(t, "new", s.receive(t).profile, "nothing comes twice")
}

// While the endpoint is unreachable, retries continue without end under any configuration, and so do retries after a
// refused credential.
func TestQueueOutlastsRetries(t *testing.T) {
	t.Parallel()
	for _, code := range []connect.Code{connect.CodeUnavailable, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeUnknown, connect.CodeResourceExhausted} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.set(func(call int, _ *pushRequest) error {
				if call <= 25 {
					return connect.NewError(code, io.ErrUnexpectedEOF)
				}
				return nil
			})
			args := queued(s.URL)
			args.Endpoints[0].MaxBackoffRetries = 2
			r := newQueueRig(t, t.TempDir(), args, queueTuning()).runNow()
			r.append(numbers(0, 5)...)
			got := s.receiveAll(t, 5)
			require.ElementsMatch(t, numbers(0, 5), got)
			require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
		})
	}
}

// A profile that the server refuses, or cannot process while it takes other profiles, does not delay other profiles.
func TestQueuePoison(t *testing.T) {
	t.Parallel()
	for code, reason := range map[connect.Code]string{
		connect.CodeInvalidArgument: "refused", connect.CodeUnknown: "retries_used_up",
		connect.CodeInternal: "retries_used_up", connect.CodePermissionDenied: "retries_used_up",
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.set(func(_ int, request *pushRequest) error {
				if strings.Contains(string(request.Msg.Series[0].Samples[0].RawProfile), "bad") {
					return connect.NewError(code, io.ErrUnexpectedEOF)
				}
				return nil
			})
			r := newQueueRig(t, t.TempDir(), queued(s.URL), queueTuning()).runNow()
			r.append("1", "bad", "2", "bad", "bad", "3", "4")
			r.append(numbers(5, 10)...)
			require.ElementsMatch(t, numbers(1, 14), s.receiveAll(t, 14))
			r.eventually("pyroscope_write_dropped_profiles_total", 3)
			r.eventually("pyroscope_write_drop_reasons_total", 3)
			families, err := r.registry.Gather()
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(families), reason)
			r.eventually("pyroscope_write_sent_profiles_total", 14)
			r.eventually("pyroscope_write_queue_profiles", 0)
		})
	}
}

// One push at a time, unless configured otherwise.
func TestQueueInFlight(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 5} {
		s := newServer(t)
		var now, peak atomic.Int64
		s.set(func(int, *pushRequest) error {
			n := now.Add(1)
			defer now.Add(-1)
			for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		})
		args := queued(s.URL)
		args.Queue.MaxInFlight = most
		r := newQueueRig(t, t.TempDir(), args, queueTuning()).runNow()
		r.append(numbers(0, 40)...)
		got := s.receiveAll(t, 40)
		require.ElementsMatch(t, numbers(0, 40), got)
		if most == 1 {
			require.Equal(t, numbers(0, 40), got)
		}
		require.LessOrEqual(t, peak.Load(), int64(most))
	}
}

func TestQueueDeadEndpointBesideALiveOne(t *testing.T) {
	dead, live := newServer(t), newServer(t)
	dead.wrap(dead.hang)
	tune := queueTuning()
	tune.flush = 200 * time.Millisecond
	dir := t.TempDir()
	args := queued(dead.URL, live.URL)
	r := newQueueRig(t, dir, args, tune).runNow()
	r.append(numbers(0, 50)...)
	require.Equal(t, numbers(0, 50), live.receiveAll(t, 50))
	r.eventually("pyroscope_write_sent_profiles_total", 50) // the answers have also arrived
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
	r.stop()
	dead.wrap(nil)
	newQueueRig(t, dir, args, queueTuning()).runNow()
	require.Equal(t, numbers(0, 50), dead.receiveAll(t, 50))
	require.Len(t, live.pushed, 0)
}

func TestQueueDropsOldProfiles(t *testing.T) {
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	args := queued(s.URL)
	args.Queue.MaxAge = 200 * time.Millisecond
	r := newQueueRig(t, t.TempDir(), args, queueTuning()).runNow()
	r.append(numbers(0, 10)...)
	r.eventually("pyroscope_write_dropped_profiles_total", 10)
	require.NoError(t, r.Update(queued(s.URL))) // the new one may take its time
	s.set(nil)
	r.append("new")
	require.Equal(t, "new", s.receive(t).profile)
	require.Contains(t, r.log.String(), "too old for the server")
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	args := queued(s.URL)
	args.Queue.MaxBytes = minQueueBytes
	r := newQueueRig(t, t.TempDir(), args, queueTuning()).runNow()
	const count = 300
	for i := range count {
		r.append(fmt.Sprintf("%010000d", i))
	}
	dropped := r.metric("pyroscope_write_dropped_profiles_total")
	require.Greater(t, dropped, 100.0)
	s.set(nil)
	seen := map[string]bool{}
	for range count - int(dropped) {
		seen[s.receive(t).profile] = true
	}
	require.True(t, seen[fmt.Sprintf("%010000d", count-1)], "the newest are kept")
	r.eventually("pyroscope_write_sent_profiles_total", float64(count)-dropped)
}

// A disk that cannot be used sends profiles back to memory, counted; when it can,
// they move to disk.
func TestQueueWithoutDisk(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	dir := t.TempDir()
	blocked := filepath.Join(dir, "queue")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600)) // in the place of a directory
	r := newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	r.append(numbers(0, 10)...)
	require.EqualValues(t, 10, r.metric("pyroscope_write_queue_memory_profiles_total"))
	require.Greater(t, r.metric("pyroscope_write_queue_disk_errors_total"), 0.0)
	info := r.DebugInfo().(DebugInfo).Endpoints[0]
	require.NotZero(t, info.QueueMemory)
	require.Contains(t, info.QueueTrouble, "not a directory")
	require.Contains(t, r.CurrentHealth().Message, "profiles wait in memory, for the queue on disk fails: ")
	require.Contains(t, r.log.String(), "profiles wait in memory")

	require.NoError(t, os.Remove(blocked))
	require.Eventually(t, func() bool {
		return r.tryAppend("later") == nil && r.DebugInfo().(DebugInfo).Endpoints[0].QueueMemory == 0
	}, 2*time.Minute, 20*time.Millisecond)
	require.Contains(t, r.log.String(), "the queue on disk works again")
	r.stop()
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"), "they stay on disk")

	s.set(nil)
	newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	seen := map[string]int{}
	for len(seen) < 11 { // profiles in flight at the stop come last
		seen[s.receive(t).profile]++
	}
	for _, n := range numbers(0, 10) {
		require.Equal(t, 1, seen[n], n)
	}
}

// Two components that share a directory by mistake do not hurt each other.
func TestQueueDirectoryInUse(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	first := newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	first.append("first")
	s.receive(t)
	second := newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow()
	second.append("second")
	require.Equal(t, "second", s.receive(t).profile)
	require.Contains(t, second.log.String(), "which another process or component may hold")
}

// Reloads keep what waits: with other options of the same endpoint at once, with
// the endpoint gone and back on disk.
func TestQueueOverReloads(t *testing.T) {
	s := newServer(t)
	s.set(answerCode(connect.CodeUnauthenticated))
	args := queued(s.URL)
	r := newQueueRig(t, t.TempDir(), args, queueTuning()).runNow()
	r.append(numbers(0, 5)...)

	changed := queued(s.URL)
	changed.Queue.MaxBytes *= 2
	changed.Queue.MaxInFlight = 3
	changed.Endpoints[0].HTTPClient.BearerToken = "new"
	require.NoError(t, r.Update(changed))
	require.NoError(t, r.Update(Arguments{Queue: args.Queue}))
	r.eventually("pyroscope_write_queue_profiles", 0)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "profiles stay in the queue on disk") },
		2*time.Minute, time.Millisecond)
	s.set(nil)
	require.NoError(t, r.Update(args))
	require.Equal(t, numbers(0, 5), s.receiveAll(t, 5))
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"))
}

// A profile that waits for one tenant is not sent to another tenant, and is removed when its endpoint no longer exists.
func TestQueueKeys(t *testing.T) {
	a, b, c := endpointTo("http://h"), endpointTo("http://h"), endpointTo("http://h")
	b.Headers = map[string]string{"x-scope-orgid": "b"}
	c.HTTPClient.BearerToken = "rotates"
	keys := queueKeys([]*EndpointOptions{a, b, c, endpointTo("http://i")})
	require.NotEqual(t, keys[0], keys[1])
	require.Equal(t, keys[0]+"-2", keys[2])
	require.NotEqual(t, keys[0], keys[3])
	require.Equal(t, keys[0], queueKeys([]*EndpointOptions{c})[0], "credentials are not part of it")
}

func TestQueueSweep(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	old, recent := filepath.Join(dir, "queue", "old"), filepath.Join(dir, "queue", "recent")
	for _, name := range []string{old, recent} {
		require.NoError(t, os.MkdirAll(filepath.Join(name, "log"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(name, "log", "00000000"), nil, 0o600))
	}
	past := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{filepath.Join(old, "log", "00000000"), filepath.Join(old, "log"), old} {
		require.NoError(t, os.Chtimes(name, past, past))
	}
	newQueueRig(t, dir, queued(s.URL), queueTuning()).runNow().append("x")
	s.receive(t)
	require.NoDirExists(t, old)
	require.DirExists(t, recent)
}

func TestQueueNeedsADirectory(t *testing.T) {
	_, err := newComponent(component.Options{}, queued("http://localhost"), queueTuning())
	require.EqualError(t, err, "queue: this program gives its components no directory for data")
}

// While an endpoint is away in memory mode, one attempt every few seconds notices
// that it is back long before the waits between retries are over, and all follow.
func TestProbe(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(answerCode(connect.CodeUnavailable))
	args := argumentsTo(s.URL)
	args.Endpoints[0].MinBackoff = time.Millisecond
	args.Endpoints[0].MaxBackoff = time.Hour
	args.Endpoints[0].MaxBackoffRetries = 40
	r := newRig(t, args, queueTuning()).run()
	r.append(numbers(0, 6)...)
	require.Eventually(t, func() bool { return s.callCount() > 60 }, 2*time.Minute, 5*time.Millisecond,
		"their own retries would be hours apart by now")
	s.set(nil)
	require.ElementsMatch(t, numbers(0, 6), s.receiveAll(t, 6))
	require.Zero(t, r.metric("pyroscope_write_dropped_profiles_total"), "attempts between are not retries")
}

// An appended profile is on disk when Append returns.
func TestQueueAppendIsDurable(t *testing.T) {
	s := newServer(t)
	s.wrap(s.hang)
	dir := t.TempDir()
	tune := queueTuning()
	tune.flush = 50 * time.Millisecond
	r := newQueueRig(t, dir, queued(s.URL), tune).runNow()
	r.append(numbers(0, 20)...)
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	r.stop()
	s.wrap(nil)
	newQueueRig(t, copied, queued(s.URL), queueTuning()).runNow()
	require.Equal(t, numbers(0, 20), s.receiveAll(t, 20))
}

func FuzzDecodeIngest(f *testing.F) {
	data, err := encodeItem(&item{ingest: &ingestRequest{path: "/ingest", query: "a=b", contentType: []string{"x", "y"},
		body: []byte("body")}})
	require.NoError(f, err)
	f.Add(data[1:])
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeIngest(data)
		if err != nil {
			return
		}
		again, err := encodeItem(&item{ingest: r})
		require.NoError(t, err)
		same, err := decodeIngest(again[1:])
		require.NoError(t, err)
		require.Equal(t, r, same)
	})
}
