package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli/internal/doctor"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// examine runs doctor --json, as another user if uid is not 0.
func examine(t *testing.T, uid uint32) (found map[string]doctor.Finding, report doctor.Report, code int) {
	t.Helper()
	cmd := headwater(t, "doctor", "--json")
	if uid != 0 {
		program := cmd.Path
		dir, err := os.MkdirTemp("", "doctor")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		require.NoError(t, os.Chmod(dir, 0o755))
		cmd.Path, cmd.Dir = dir+"/headwater", dir
		testkit.CopyProgram(t, program, cmd.Path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	stdout, stderr, code := result(t, cmd)
	require.NoError(t, json.Unmarshal([]byte(stdout), &report), "%s %s", stdout, stderr)
	found = map[string]doctor.Finding{}
	for _, f := range report.Findings {
		require.Contains(t, []doctor.State{doctor.OK, doctor.Warn, doctor.Bad}, f.State)
		require.Equal(t, f.State != doctor.OK, f.Do != "", "%+v", f)
		found[f.Name] = f
	}
	return found, report, code
}

func TestDoctor(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	python := exec.Command("python3", "-c", "print(1, flush=True); import time; time.sleep(60)")
	out, err := python.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, python.Start())
	defer python.Wait()
	defer python.Process.Kill()
	_, err = out.Read(make([]byte, 2)) // it has started
	require.NoError(t, err)

	found, report, code := examine(t, 0)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(release)), found["kernel"].Found)
	require.Equal(t, doctor.OK, found["capabilities"].State)
	require.Equal(t, report.Worst() == doctor.Bad, code == 1)
	version, err := exec.Command("python3", "-c", "import sys; print('python %d.%d' % sys.version_info[:2])").Output()
	require.NoError(t, err)
	name := ""
	for _, r := range report.Runtimes {
		for _, pid := range r.PIDs {
			if pid == uint32(python.Process.Pid) {
				name = r.Name
			}
		}
	}
	require.Equal(t, strings.TrimSpace(string(version)), name)
}

// TestDoctorAsNobody lacks everything that root may do.
func TestDoctorAsNobody(t *testing.T) {
	need.Root(t)
	found, _, code := examine(t, 65534)
	require.Equal(t, 1, code)
	f := found["capabilities"]
	require.Equal(t, doctor.Bad, f.State)
	require.Contains(t, f.Found, "CAP_PERFMON")
	require.Contains(t, f.Do, "setcap cap_bpf,cap_perfmon,")
	require.Contains(t, f.Do, "AmbientCapabilities=CAP_BPF CAP_PERFMON ")
}

func TestVersionCommand(t *testing.T) {
	stdout, stderr, code := result(t, headwater(t, "version", "--json"))
	require.Equal(t, 0, code, stderr)
	var v versionInfo
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.Equal(t, runtime.Version(), v.Go)
	require.Equal(t, "linux/"+runtime.GOARCH, v.Platform)
	require.NotEmpty(t, v.Version)
	stdout, _, code = result(t, headwater(t, "version"))
	require.Equal(t, 0, code)
	require.Equal(t, "headwater "+v.Version+" "+v.Go+" "+v.Platform+"\n", stdout)
}
