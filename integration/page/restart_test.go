package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestLinksOutliveARestart requests the same time before and after headwater is restarted, once after a signal to end
// and once after a kill.
func TestLinksOutliveARestart(t *testing.T) {
	testkit.Nightly(t, "package flame/server tests what is read after a restart")
	need.Root(t)
	rig.StartChain(t, rig.ChainProgram(t, "hwrestart"), 120)
	data := t.TempDir()
	h := startWithHistory(t, data, "1s")
	rounds := func() int { return historyOf(t, h).History.Disk.Rounds }
	testkit.Eventually(t, "rounds are on disk", func() bool { return rounds() >= 4 })
	var line struct{ From, To []int64 }
	getAs(t, h, "api/series", &line)
	span := fmt.Sprintf("from=%d&to=%d", line.From[0], line.To[2])
	trees := []string{"api/tree?" + span, "api/tree?process=hwrestart&" + span, "api/top?" + span, "api/series?" + span}
	want := answersOf(t, h, trees)
	require.Contains(t, want[1], `"hwrestart"`)
	h.Stop(t)

	h = startWithHistory(t, data, "1h") // no new profiles arrive
	testkit.Eventually(t, "the folder is read", func() bool { return rounds() >= 4 })
	require.Zero(t, historyOf(t, h).History.Profiles)
	for i, answer := range answersOf(t, h, trees) {
		require.JSONEq(t, intervals.ReplaceAllString(want[i], ""), intervals.ReplaceAllString(answer, ""), trees[i])
	}
	_, body := h.Get(t, rig.PagePath)
	require.Contains(t, body, "On disk are ")
	h.Signal(t, syscall.SIGKILL)
	h.Wait(t, time.Minute)

	h = startWithHistory(t, data, "1s")
	for i, answer := range answersOf(t, h, trees) {
		require.JSONEq(t, intervals.ReplaceAllString(want[i], ""), intervals.ReplaceAllString(answer, ""), trees[i])
	}
	require.Empty(t, h.Output.Lines("is left out"))
	h.Stop(t)
}

// intervals finds what timelines of two collect intervals have different: what a view costs makes it load again later.
var intervals = regexp.MustCompile(`"(interval|refresh)":\d+,`)

// startWithHistory runs a profiler of this host whose history is in a folder of its own.
func startWithHistory(t *testing.T, data, interval string) *rig.Headwater {
	t.Helper()
	h := rig.LaunchHeadwater(t, fmt.Sprintf(`
		pyroscope.ebpf "host" {
			forward_to         = []
			targets_only       = false
			collect_interval   = %q
			history_disk_limit = "64MiB"
		}`, interval), func(cmd *exec.Cmd) {
		for i, arg := range cmd.Args {
			if strings.HasPrefix(arg, "--storage.path=") {
				cmd.Args[i] = "--storage.path=" + data
			}
		}
	})
	h.WaitReady(t)
	return h
}

// historyHealth is what api/health says of the history.
type historyHealth struct {
	History struct {
		Profiles int
		Disk     struct{ Rounds int }
	}
}

func historyOf(t *testing.T, h *rig.Headwater) (out historyHealth) {
	t.Helper()
	getAs(t, h, "api/health", &out)
	return out
}

func answersOf(t *testing.T, h *rig.Headwater, paths []string) (answers []string) {
	t.Helper()
	for _, path := range paths {
		status, body := h.Get(t, rig.PagePath+path)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		answers = append(answers, body)
	}
	return answers
}

func getAs(t *testing.T, h *rig.Headwater, path string, to any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(answersOf(t, h, []string{path})[0]), to))
}
