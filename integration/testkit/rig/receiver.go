package rig

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

// Receiver replaces a Pyroscope server: it accepts pushed profiles and keeps them in memory.
type Receiver struct {
	URL string

	t         testing.TB
	mu        sync.Mutex
	byService map[string][]*profile.Profile
}

// StartReceiver starts a Receiver, which listens until the test ends. The test fails if a pushed profile cannot be
// read.
func StartReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t, byService: map[string][]*profile.Profile{}}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(r))
	r.URL = "http://" + Serve(t, "tcp", "127.0.0.1:0", mux)
	return r
}

// Push implements pushv1connect.PusherServiceHandler.
func (r *Receiver) Push(_ context.Context,
	request *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, series := range request.Msg.GetSeries() {
		service := ""
		for _, label := range series.GetLabels() {
			if label.GetName() == "service_name" {
				service = label.GetValue()
			}
		}
		for _, sample := range series.GetSamples() {
			p, err := profile.Parse(bytes.NewReader(sample.GetRawProfile()))
			if err != nil {
				r.t.Error(err)
				continue
			}
			r.byService[service] = append(r.byService[service], p)
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

// Profiles returns the profiles of a service so far.
func (r *Receiver) Profiles(service string) []*profile.Profile {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.byService[service])
}

// Counts returns the number of profiles so far, by service.
func (r *Receiver) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]int, len(r.byService))
	for service, profiles := range r.byService {
		counts[service] = len(profiles)
	}
	return counts
}
