package ebpf

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/river/encoding/riverjson"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/integration/testkit"
)

// diskArgs keep the history on disk.
func diskArgs() Arguments {
	args := fastArgs()
	args.Settings.HistoryDiskLimit = 1 << 20
	return args
}

// onDisk returns what debug info says of the history on disk.
func (l *lab) onDisk() DebugHistory {
	if h := l.DebugInfo().(DebugInfo).History; h != nil {
		return *h
	}
	return DebugHistory{}
}

// ask returns what the page answers.
func ask(l *lab, path string) (status int, body string) {
	answer := httptest.NewRecorder()
	l.Handler().ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
	return answer.Code, answer.Body.String()
}

func TestHistoryOutlivesTheComponent(t *testing.T) {
	data := t.TempDir()
	l := newLabIn(t, data, diskArgs())
	stop := l.run(t)
	testkit.Eventually(t, "rounds on disk", func() bool { return l.onDisk().Rounds > 3 })
	require.NoError(t, stop())
	rounds := l.session(t, 0).collects - l.onDisk().Missing

	args := diskArgs()
	args.Settings.CollectInterval = time.Hour
	again := newLabIn(t, data, args)
	stop = again.run(t)
	again.session(t, 0)
	status, body := ask(again, "/api/tree?from=0&to=9999999999999")
	require.Equal(t, 200, status, body)
	var tree struct{ Samples, Profiles uint64 }
	require.NoError(t, json.Unmarshal([]byte(body), &tree))
	require.Equal(t, rounds, tree.Samples, "one sample a round, those of the last one too")
	require.Equal(t, rounds, tree.Profiles)
	info, err := riverjson.MarshalBody(again.DebugInfo())
	require.NoError(t, err)
	require.Contains(t, string(info), `"name":"rounds_missing"`)
	require.NoError(t, stop())
}

func TestHistoryDiskLimitIsUpdated(t *testing.T) {
	data := t.TempDir()
	l := newLabIn(t, data, fastArgs())
	l.run(t)
	l.session(t, 0)
	require.Nil(t, l.DebugInfo().(DebugInfo).History)
	require.NoDirExists(t, filepath.Join(data, "history"))
	require.NoError(t, l.Update(diskArgs()))
	testkit.Eventually(t, "rounds on disk", func() bool { return l.onDisk().Rounds > 0 })
	require.NoError(t, l.Update(fastArgs()))
	testkit.Eventually(t, "no history on disk", func() bool { return l.DebugInfo().(DebugInfo).History == nil })
	// The update does not wait for a round that is being written.
	testkit.Eventually(t, "nothing is written", func() bool { return os.RemoveAll(filepath.Join(data, "history")) == nil })
}

func TestHistoryDiskNeedsAFolder(t *testing.T) {
	l := newLab(t, fastArgs()) // its host gives it none
	require.EqualError(t, l.Update(diskArgs()),
		"history_disk_limit: this program gives its components no directory for data")
	_, err := New(component.Options{}, diskArgs())
	require.ErrorContains(t, err, "history_disk_limit")
}

func TestHistoryThatCannotBeKept(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(data, nil, 0o600))
	l := newLabIn(t, data, diskArgs())
	l.run(t)
	testkit.Eventually(t, "a remark", func() bool {
		return strings.Contains(l.CurrentHealth().Message, "the history on disk cannot be kept: mkdir "+data)
	})

	require.Equal(t, component.HealthTypeHealthy, l.CurrentHealth().Health)
	require.NotEmpty(t, l.onDisk().Problem)
	require.Equal(t, 1, strings.Count(l.log.String(), "level=warn"), l.log.String())
}
