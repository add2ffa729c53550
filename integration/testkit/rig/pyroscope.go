package rig

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

	"github.com/headwater/headwater/integration/testkit"
)

// CPUProfile is the type of the profiles of a target without a __name__.
const CPUProfile = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

// pyroscopeOnce finds or builds the server once per run.
var pyroscopeOnce = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("HEADWATER_PYROSCOPE"); path != "" {
		return path, nil
	}
	build := exec.Command("./build")
	build.Dir = "../pyroscope"
	build.Stderr = os.Stderr
	folder, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("integration/pyroscope/build: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(folder)), "pyroscope"), nil
})

// Pyroscope is a running Pyroscope server with its own storage.
type Pyroscope struct {
	*Process
	URL        string
	dir        string // its storage
	http, grpc string // its ports
}

// StartPyroscope starts an empty server and waits until it is ready.
func StartPyroscope(t testing.TB) *Pyroscope {
	t.Helper()
	p := &Pyroscope{dir: t.TempDir(), http: FreePort(t), grpc: FreePort(t)}
	p.URL = "http://127.0.0.1:" + p.http
	p.Run(t)
	return p
}

// Run starts the server on its ports and storage. After [Pyroscope.Stop] it can run again.
func (p *Pyroscope) Run(t testing.TB) {
	t.Helper()
	binary, err := pyroscopeOnce()
	if err != nil {
		t.Fatal(err)
	}
	p.Process = Start(t, exec.Command(binary, p.flags()...))
	testkit.Eventually(t, "Pyroscope is ready", func() bool {
		if p.Ended() {
			t.Fatalf("Pyroscope has ended: %v\n%s", p.Err, p.Output.Tail(20))
		}
		response, err := http.Get(p.URL + "/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// Stop ends the server and waits until its ports are free.
func (p *Pyroscope) Stop(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t, 30*time.Second)
}

// flags keep the server on loopback, quiet and quick to start. By default it uses gossip, advertises the machine's
// address, reports its usage and profiles itself.
func (p *Pyroscope) flags() []string {
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
	for _, ring := range []string{"compactor.ring", "distributor.ring", "overrides-exporter.ring", "query-scheduler.ring",
		"store-gateway.sharding-ring"} {
		flags = append(flags, "-"+ring+".store=inmemory", "-"+ring+".instance-addr=127.0.0.1")
	}
	return flags
}

func (p *Pyroscope) querier() querierv1connect.QuerierServiceClient {
	return querierv1connect.NewQuerierServiceClient(http.DefaultClient, p.URL)
}

// Profile returns the merged samples of a profile type that match a selector such as `{service_name="x"}`, from the
// last hour but not before since. The result may be empty, but is not nil. On a busy machine requests between the
// server's parts time out; the query is then repeated.
func (p *Pyroscope) Profile(t testing.TB, profileType, selector string, since time.Time) *profile.Profile {
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

// LabelValues returns the values that a label has on the server.
func (p *Pyroscope) LabelValues(t testing.TB, name string) []string {
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

// Discarded returns the number of samples that the server has refused, with the reasons from its metrics.
func (p *Pyroscope) Discarded(t testing.TB) string {
	t.Helper()
	response, err := http.Get(p.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_, body := ReadResponse(t, response)
	var found []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "pyroscope_discarded_") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}

// WaitForService waits until profiles of a service have arrived.
func WaitForService(t testing.TB, server *Pyroscope, service string) {
	t.Helper()
	testkit.Eventually(t, "service "+service+" is in Pyroscope", func() bool {
		p := server.Profile(t, CPUProfile, fmt.Sprintf("{service_name=%q}", service), time.Time{})
		return len(p.Sample) > 0
	})
}
