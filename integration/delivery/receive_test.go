package delivery

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

const receiveConfig = `
pyroscope.receive_http "programs" {
	http {
		listen_address = "127.0.0.1"
		listen_port    = %s
	}
	forward_to = [pyroscope.relabel.teams.receiver]
}

pyroscope.relabel "teams" {
	forward_to = [pyroscope.write.server.receiver]

	rule {
		source_labels = ["env"]
		regex         = "test"
		action        = "drop"
	}

	rule {
		source_labels = ["team"]
		target_label  = "squad"
	}

	rule {
		regex  = "team"
		action = "labeldrop"
	}
}

pyroscope.write "server" {
	endpoint {
		url = %q
	}
	external_labels = {"cluster" = "here"}
}
`

// TestReceive sends profiles of other programs through pyroscope.receive_http,
// pyroscope.relabel and pyroscope.write to Pyroscope, by the push API and by the
// older /ingest. They arrive with their samples and with the labels of the rules. What
// the rules drop does not arrive.
func TestReceive(t *testing.T) {
	t.Parallel()
	server := sharedPyroscope(t)
	port := rig.FreePort(t)
	h := rig.StartHeadwater(t, fmt.Sprintf(receiveConfig, port, server.URL))
	receiver := "http://127.0.0.1:" + port
	testkit.Eventually(t, "the receiver listens", func() bool {
		response, err := http.Get(receiver)
		if err != nil {
			return false
		}
		response.Body.Close()
		return true
	})

	push(t, receiver, map[string]string{"service_name": "pushed", "team": "river"})
	push(t, receiver, map[string]string{"service_name": "pushed-test", "team": "river", "env": "test"})
	ingest(t, receiver, "ingested{service_name=ingested,team=lake}")
	ingest(t, receiver, "ingested{service_name=ingested-test,team=lake,env=test}")

	for service, squad := range map[string]string{"pushed": "river", "ingested": "lake"} {
		selector := fmt.Sprintf(`{service_name=%q, squad=%q, cluster="here"}`, service, squad)
		var got []rig.Stack
		testkit.Eventually(t, selector+" is in Pyroscope", func() bool {
			got = rig.Stacks(server.Profile(t, rig.CPUProfile, selector, time.Time{}))
			return len(got) > 0
		})

		if len(got) != 1 || got[0].Value != 70_000_000 || !slices.Equal(got[0].Names(), []string{"main", "work"}) {
			t.Errorf("%s: %s", service, rig.Show(got, 3))
		}
	}
	services := server.LabelValues(t, "service_name")
	if slices.ContainsFunc(services, func(s string) bool { return strings.HasSuffix(s, "-test") }) {
		t.Errorf("what a rule drops is in Pyroscope: %q", services)
	}
	if teams := server.LabelValues(t, "team"); len(teams) > 0 {
		t.Errorf("a label that a rule drops is in Pyroscope: %q", teams)
	}
	if n := h.Metric(t, "pyroscope_write_sent_profiles_total"); n != 2 {
		t.Errorf("%v profiles were sent, not 2", n)
	}
	h.Stop(t)
}

// work returns a profile of 70 ms of main > work.
func work(t testing.TB) []byte {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     10_000_000, TimeNanos: time.Now().UnixNano(), DurationNanos: 1_000_000_000,
	}
	var stack []*profile.Location
	for i, name := range []string{"work", "main"} { // the innermost first
		f := &profile.Function{ID: uint64(i + 1), Name: name}
		l := &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: f}}}
		p.Function, p.Location, stack = append(p.Function, f), append(p.Location, l), append(stack, l)
	}
	p.Sample = []*profile.Sample{{Location: stack, Value: []int64{70_000_000}}}
	var raw bytes.Buffer
	if err := p.Write(&raw); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// push sends 70 ms of main > work by the push API.
func push(t testing.TB, url string, labels map[string]string) {
	t.Helper()
	pairs := []*typesv1.LabelPair{{Name: "__name__", Value: "process_cpu"}}
	for name, value := range labels {
		pairs = append(pairs, &typesv1.LabelPair{Name: name, Value: value})
	}
	client := pushv1connect.NewPusherServiceClient(http.DefaultClient, url)
	_, err := client.Push(t.Context(), connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
		Labels: pairs, Samples: []*pushv1.RawSample{{RawProfile: work(t)}},
	}}}))
	if err != nil {
		t.Fatalf("push: %v", err)
	}
}

// ingest sends 70 ms of main > work by /ingest, as a pprof file in a form.
func ingest(t testing.TB, url, name string) {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("profile", "profile.pprof")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(work(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/ingest", &form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", w.FormDataContentType())
	query := request.URL.Query()
	for key, value := range map[string]string{"name": name, "spyName": "test",
		"from": fmt.Sprint(now - 10), "until": fmt.Sprint(now)} {
		query.Set(key, value)
	}
	request.URL.RawQuery = query.Encode()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := rig.ReadResponse(t, response); code != http.StatusOK {
		t.Fatalf("ingest: status %d: %s", code, body)
	}
}
