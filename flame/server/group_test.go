package server

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

func TestGroupingsOf(t *testing.T) {
	texts := func(labels []string, chosen string) (out []string) {
		for _, g := range groupingsOf(labels, chosen) {
			out = append(out, g.Text)
		}
		return out
	}
	require.Empty(t, texts(nil, ""))
	require.Equal(t, []string{"process", "thread state", "reason of the wait", "trace", "zone"},
		texts([]string{"zone", "wait", "comm", "trace", "state"}, ""))
	require.Equal(t, []string{"process ID", "thread"}, texts([]string{"thread_name"}, "pid"))
}

// The page offers the labels that samples have, and keeps the one that is chosen in its links.
func TestFlameIsGrouped(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	tree := getTree(t, server.URL+prefix+"/api/tree?range=last&target="+fioID())
	_, file := get(t, server.URL+prefix+"/profile?range=last&target="+fioID())
	p, err := profile.ParseData([]byte(file))
	require.NoError(t, err)
	for _, s := range p.Sample {
		for key := range s.Label {
			require.Contains(t, tree.Labels, key)
		}
		for key := range s.NumLabel {
			require.Contains(t, tree.Labels, key)
		}
	}
	require.Contains(t, tree.Labels, "pid")

	answer, body := get(t, server.URL+prefix+"/flame?range=last&tagroot=pid&target="+fioID())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "pid", answer.Request.URL.Query().Get("tagroot"))
	require.Contains(t, body, `<option value="pid" selected>process ID</option>`)
	for _, data := range []string{"tree", "top", "sandwich", "series"} {
		require.Regexp(t, regexp.MustCompile(`data-`+data+`="[^"]*tagroot=pid`), body)
	}
}
