package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sleeper starts an idle process.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func runTargets(t *testing.T, config string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.river")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	var out, errs bytes.Buffer
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append([]string{"targets", path}, args...))
	err = cmd.Execute()
	return out.String(), errs.String(), err
}

func TestTargets(t *testing.T) {
	kept, dropped, other := sleeper(t), sleeper(t), sleeper(t)
	const missing = "fedcba9876543210feedfacecafebeef00112233445566778899aabbccddeeff"
	out, errs, err := runTargets(t, fmt.Sprintf(`
		discovery.relabel "r" {
			targets = [
				{"__process_pid__" = "%d", "service_name" = "kept"},
				{"__process_pid__" = "%d", "env" = "dev"},
				{"__container_id__" = "%s"},
				{"useless" = "x"},
			]
			rule {
				source_labels = ["env"]
				regex         = "dev"
				action        = "drop"
			}
		}
		pyroscope.ebpf "e" {
			targets    = discovery.relabel.r.output
			forward_to = [pyroscope.write.w.receiver]
		}
		pyroscope.write "w" {
			endpoint {
				url = "http://127.0.0.1:1"
			}
		}`, kept, dropped, missing), "--wait", "1m", "--all")
	require.NoError(t, err, errs)
	require.Contains(t, out, "pyroscope.ebpf.e: 3 targets: 1 by container, 1 by process, 1 with neither")
	row := func(pid int, rest string) { require.Regexp(t, fmt.Sprintf(`(?m)^%d +%s`, pid, rest), out) }
	row(kept, fmt.Sprintf(`\S+ +\S+ +\{__name__="process_cpu", __process_pid__="%d", service_name="kept"\} `+
		`by __process_pid__$`, kept))
	row(dropped, `.*dropped by rule 1 of discovery.relabel.r \(drop \[env\] regex "dev"\)$`)
	row(other, `.*(no container ID in its cgroup .*|no target names its container): not profiled`)
	require.Contains(t, out, "no running process for {__container_id__=")
	require.NotContains(t, out, "NO PROCESS MATCHES")
}

func TestTargetsOfDiscovery(t *testing.T) {
	pid := sleeper(t)
	out, errs, err := runTargets(t, `
		discovery.process "all" { }
		discovery.docker "none" {
			host = "unix:///nowhere/docker.sock"
		}
		pyroscope.ebpf "e" {
			targets    = concat(discovery.process.all.targets, discovery.docker.none.targets)
			forward_to = []
		}`, "--wait", "5s")
	require.NoError(t, err, errs)
	require.Regexp(t, fmt.Sprintf(`(?m)^%d .* by __process_pid__$`, pid), out)
	require.Contains(t, out, "discovery.docker.none has found no targets yet: ")
	require.Contains(t, out, "/nowhere/docker.sock")
}

func TestTargetsWithNothingToShow(t *testing.T) {
	out, _, err := runTargets(t, "")
	require.NoError(t, err)
	require.Contains(t, out, "no pyroscope.ebpf in this configuration")
	_, errs, err := runTargets(t, "nope.thing \"x\" { }")
	require.EqualError(t, err, "could not load the configuration")
	require.Contains(t, errs, `cannot retrieve the definition of component name "nope.thing"`)
	_, _, err = runTargets(t, "", "--wait", "0s")
	require.ErrorContains(t, err, "--wait")
	_, _, err = runTargets(t, "", "--wait", time.Second.String())
	require.NoError(t, err)
}
