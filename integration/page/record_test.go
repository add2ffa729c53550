package page

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestRecordOnDemand records one process while a profiler continues: at the requested rate, only that process, and with
// times if the format has them.
func TestRecordOnDemand(t *testing.T) {
	t.Parallel()
	need.Root(t)
	h := rig.StartHeadwater(t, hostConfig)
	loop := rig.Start(t, exec.Command("sh", "-c", "while :; do :; done"))
	pid := strconv.Itoa(loop.PID())
	record := func(form url.Values) []byte {
		t.Helper()
		answer, err := http.PostForm(h.URL+rig.PagePath+"api/record", form)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s", body)
		return body
	}
	before := rig.CPUTime(t, pid)
	p, err := profile.ParseData(record(url.Values{"pid": {pid}, "rate": {"1999"}, "seconds": {"4"}}))
	require.NoError(t, err)
	used := rig.CPUTime(t, pid) - before
	sum := int64(0)
	for _, s := range p.Sample {
		require.Equal(t, []string{pid}, s.Label["pid"])
		sum += s.Value[len(s.Value)-1]
	}
	require.EqualValues(t, int64(1e9)/1999, p.Period)
	require.Greater(t, sum, p.Period*100, "samples")
	require.LessOrEqual(t, sum, used.Nanoseconds()*11/10+p.Period, "the loop has used that much meanwhile")

	var trace struct{ TraceEvents []json.RawMessage }
	require.NoError(t, json.Unmarshal(record(url.Values{"pid": {pid}, "seconds": {"1"}, "format": {"trace"}}), &trace))
	require.NotEmpty(t, trace.TraceEvents)
	answer, err := http.PostForm(h.URL+rig.PagePath+"api/record", url.Values{"pid": {fmt.Sprint(1 << 30)}})
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	_, body := h.Get(t, rig.PagePath+"api/health")
	require.Contains(t, body, `"healthy":true`)
	h.Stop(t)
}
