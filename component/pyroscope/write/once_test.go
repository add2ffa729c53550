package write

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// onceProfile is a small profile.
func onceProfile(t *testing.T) []byte {
	t.Helper()
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	f := &profile.Function{ID: 1, Name: "main"}
	m := &profile.Mapping{ID: 1, File: "/bin/program"}
	l := &profile.Location{ID: 1, Mapping: m, Line: []profile.Line{{Function: f}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 1, Mapping: []*profile.Mapping{m},
		Function: []*profile.Function{f}, Location: []*profile.Location{l},
		Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{1}}},
	}
	var out bytes.Buffer
	require.NoError(t, p.Write(&out))
	return out.Bytes()
}

// TestOnce: an error of the server is tried again, a refusal is not.
func TestOnce(t *testing.T) {
	of := map[string]string{"__name__": "process_cpu", "service_name": "program"}
	var asked atomic.Int32
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(int(status.Load()))
			return
		}
		w.Header().Set("Content-Type", "application/proto")
	}))
	t.Cleanup(server.Close)
	status.Store(http.StatusServiceUnavailable)
	require.NoError(t, Once(t.Context(), server.URL, of, onceProfile(t)))
	require.EqualValues(t, 2, asked.Load())
	status.Store(http.StatusUnauthorized)
	asked.Store(0)
	require.Error(t, Once(t.Context(), server.URL, of, onceProfile(t)))
	require.EqualValues(t, 1, asked.Load())
	require.ErrorContains(t, CheckURL("server:4040"), "must be absolute and start with http:// or https://")
	require.NoError(t, CheckURL("http://server:4040"))
}
