package tools

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestPush: a real Pyroscope shows the stacks that the file has, with the same values, as the service that the flags
// say.
func TestPush(t *testing.T) {
	t.Parallel()
	server := rig.StartPyroscope(t)
	program := startChain(t, "hwpush")
	pid := fmt.Sprint(program.PID())
	for service, labels := range map[string][]string{
		"process " + pid + " (hwpush)": nil,
		"shop":                         {"--push-label", "service_name=shop,env=test"},
	} {
		t.Run(service, func(t *testing.T) {
			folder, stderr := recordSamples(t, 50, append([]string{"-p", pid, "--push", server.URL}, labels...)...)
			require.Contains(t, stderr, fmt.Sprintf("pushed to Pyroscope as service %q", service))
			selector := fmt.Sprintf("{service_name=%q}", service)
			if labels != nil {
				selector = fmt.Sprintf(`{service_name=%q, env="test"}`, service)
			}
			var got *profile.Profile
			testkit.Eventually(t, "the profile is in Pyroscope", func() bool {
				got = server.Profile(t, rig.CPUProfile, selector, time.Time{})
				return len(got.Sample) > 0
			})

			want := readProfile(t, folder, "headwater.pb.gz")
			require.Equal(t, values(rig.Stacks(want)), values(rig.Stacks(got)))
			require.Empty(t, server.Discarded(t))
		})
	}
}

// values adds up the values of equal stacks.
func values(stacks []rig.Stack) map[string]int64 {
	sums := map[string]int64{}
	for _, s := range stacks {
		var names []string
		for _, f := range s.Frames {
			names = append(names, f.Name)
		}
		sums[strings.Join(names, ";")] += s.Value
	}
	return sums
}

// TestPushWithoutServer: the file and the summary are there, and the error does not show the password.
func TestPushWithoutServer(t *testing.T) {
	t.Parallel()
	program := startChain(t, "hwpush")
	folder, _, stderr, code := record(t, "-p", fmt.Sprint(program.PID()), "-d", "1",
		"--push", "http://user:secret@127.0.0.1:"+rig.FreePort(t))
	require.Equal(t, 2, code)
	require.FileExists(t, filepath.Join(folder, "headwater.pb.gz"))
	require.Contains(t, stderr, "of stacks are whole")
	require.Contains(t, stderr, "Error: push to http://user:xxxxx@127.0.0.1:")
	require.NotContains(t, stderr, "secret")
}
