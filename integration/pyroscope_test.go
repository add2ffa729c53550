package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"google.golang.org/protobuf/proto"
)

// cpuProfile is the type of the profiles of a target without a __name__.
const cpuProfile = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

// pyroscopeOnce finds or builds the server once a run.
var pyroscopeOnce = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("HEADWATER_PYROSCOPE"); path != "" {
		return path, nil
	}
	build := exec.Command("./build")
	build.Dir = "pyroscope"
	build.Stderr = os.Stderr
	folder, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("integration/pyroscope/build: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(folder)), "pyroscope"), nil
})

// pyroscope is a running Pyroscope server with storage of its own.
type pyroscope struct {
	*process
	url        string
	dir        string // its storage
	http, grpc string // its ports
}

// startPyroscope starts an empty server and waits until it is ready.
func startPyroscope(t testing.TB) *pyroscope {
	t.Helper()
	p := &pyroscope{dir: t.TempDir(), http: freePort(t), grpc: freePort(t)}
	p.url = "http://127.0.0.1:" + p.http
	p.run(t)
	return p
}

// run starts the server on its ports and storage; again, after stop.
func (p *pyroscope) run(t testing.TB) {
	t.Helper()
	binary, err := pyroscopeOnce()
	if err != nil {
		t.Fatal(err)
	}
	p.process = start(t, exec.Command(binary, p.flags()...))
	eventually(t, 30*time.Second, "Pyroscope is ready", func() bool {
		if p.ended() {
			t.Fatalf("Pyroscope has ended: %v\n%s", p.err, p.output.tail(20))
		}
		response, err := http.Get(p.url + "/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// stop ends the server and waits until its ports are free.
func (p *pyroscope) stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.wait(t, 30*time.Second)
}

// flags keep the server to loopback, quiet and quick to start: by default it
// gossips, advertises the machine's address, phones home and profiles itself.
func (p *pyroscope) flags() []string {
	flags := []string{
		"-target=all", "-log.level=warn",
		"-server.http-listen-address=127.0.0.1", "-server.http-listen-port=" + p.http,
		"-server.grpc-listen-address=127.0.0.1", "-server.grpc-listen-port=" + p.grpc,
		"-memberlist.bind-addr=127.0.0.1", "-memberlist.advertise-addr=127.0.0.1",
		"-ring.store=inmemory", "-ingester.lifecycler.addr=127.0.0.1", "-ingester.min-ready-duration=0s",
		"-query-frontend.instance-addr=127.0.0.1",
		"-pyroscopedb.data-path=" + filepath.Join(p.dir, "data"),
		"-storage.filesystem.dir=" + filepath.Join(p.dir, "shared"),
		"-compactor.data-dir=" + filepath.Join(p.dir, "compactor"),
		"-blocks-storage.bucket-store.sync-dir=" + filepath.Join(p.dir, "sync"),
		"-self-profiling.disable-push=true", "-usage-stats.enabled=false", "-tracing.enabled=false",
	}
	for _, ring := range []string{"compactor.ring", "distributor.ring", "overrides-exporter.ring", "query-scheduler.ring", "store-gateway.sharding-ring"} {
		flags = append(flags, "-"+ring+".store=inmemory", "-"+ring+".instance-addr=127.0.0.1")
	}
	return flags
}

func (p *pyroscope) querier() querierv1connect.QuerierServiceClient {
	return querierv1connect.NewQuerierServiceClient(http.DefaultClient, p.url)
}

// profile returns the samples of a profile type that match a selector such
// as `{service_name="x"}`, merged, of the last hour but not before since.
// It may be empty, but not nil. Beside much other work the server's parts lose
// patience with each other; then it is asked again.
func (p *pyroscope) profile(t testing.TB, profileType, selector string, since time.Time) *profile.Profile {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now().Add(-time.Hour)
	if since.After(start) {
		start = since
	}
	request := &querierv1.SelectMergeProfileRequest{
		ProfileTypeID: profileType,
		LabelSelector: selector,
		Start:         start.UnixMilli(),
		End:           time.Now().Add(time.Minute).UnixMilli(),
	}
	answer, err := p.querier().SelectMergeProfile(ctx, connect.NewRequest(request))
	for tries := 1; tries < 5 && err != nil && strings.Contains(err.Error(), "canceled"); tries++ {
		time.Sleep(time.Second)
		answer, err = p.querier().SelectMergeProfile(ctx, connect.NewRequest(request))
	}
	if err != nil {
		t.Fatalf("query %s%s: %v", profileType, selector, err)
	}
	if len(answer.Msg.Sample) == 0 {
		return &profile.Profile{}
	}
	raw, err := proto.Marshal(answer.Msg)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := profile.ParseUncompressed(raw)
	if err != nil {
		t.Fatalf("profile of %s%s: %v", profileType, selector, err)
	}
	return parsed
}

// labelValues returns the values that a label has on the server.
func (p *pyroscope) labelValues(t testing.TB, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := p.querier().LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{
		Name:  name,
		Start: time.Now().Add(-time.Hour).UnixMilli(),
		End:   time.Now().Add(time.Minute).UnixMilli(),
	}))
	if err != nil {
		t.Fatalf("values of label %s: %v", name, err)
	}
	return answer.Msg.Names
}

// discarded returns how many samples the server has refused, with the
// reasons as its metrics state them.
func (p *pyroscope) discarded(t testing.TB) string {
	t.Helper()
	response, err := http.Get(p.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_, body := status(t, response)
	var found []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "pyroscope_discarded_") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}
