package hosts

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

var update = flag.Bool("update", false, "write the .expect files again")

// TestDiagnostics runs each broken configuration of testdata/diagnostics. It compares what
// the user sees, and headwater has to end.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	configs, err := filepath.Glob("testdata/diagnostics/*.river")
	if err != nil {
		t.Fatal(err)
	}
	if len(configs) == 0 {
		t.Fatal("testdata/diagnostics holds no configuration")
	}
	for _, config := range configs {
		name := strings.TrimSuffix(filepath.Base(config), ".river")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed := diagnose(t, config)
			golden := strings.TrimSuffix(config, ".river") + ".expect"
			if *update {
				rig.WriteFile(t, golden, printed)
			}
			if diff := cmp.Diff(rig.ReadFile(t, golden), printed); diff != "" {
				t.Errorf("%s is not what was printed (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// diagnose runs a configuration that cannot work, from its own folder, and returns its output without the log.
func diagnose(t testing.TB, config string) string {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), "run", "--server.http.listen-addr=127.0.0.1:"+rig.FreePort(t),
		"--storage.path="+t.TempDir(), filepath.Base(config))
	cmd.Dir = filepath.Dir(config)
	p := rig.Start(t, cmd)
	if code := p.Wait(t, 2*time.Minute); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	var kept strings.Builder
	for line := range strings.Lines(p.Output.String()) {
		if !strings.HasPrefix(line, "ts=") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// TestFlags checks the exit codes and messages of wrong command lines.
func TestFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
		code int
	}{
		"no file":      {[]string{"run"}, "arg", 2},
		"no such file": {[]string{"run", "nowhere.river"}, "nowhere.river", 1},
		"unknown flag": {[]string{"run", "--nonsense", "x.river"}, "--nonsense", 2},
		"unknown verb": {[]string{"stop"}, "stop", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			cmd := exec.Command(rig.Binary(t), c.args...)
			cmd.Dir, cmd.Stderr = t.TempDir(), &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("%v, want exit code %d", err, c.code)
			}
			if !strings.Contains(stderr.String(), c.want) {
				t.Errorf("printed %q, want something about %q", stderr.String(), c.want)
			}
		})
	}
}

// TestNotRoot runs the profiler as the user nobody: it must report in one sentence which capabilities are missing.
func TestNotRoot(t *testing.T) {
	need.Root(t) // to become nobody
	t.Parallel()
	dir := rig.PublicDir(t)
	binary := filepath.Join(dir, "headwater")
	testkit.CopyProgram(t, rig.Binary(t), binary)
	config := filepath.Join(dir, "config.river")
	rig.WriteFile(t, config, "pyroscope.ebpf \"host\" {\n\tforward_to = []\n}\n")

	address := "127.0.0.1:" + rig.FreePort(t)
	cmd := exec.Command(binary, "run", "--require-healthy", "--server.http.listen-addr="+address,
		"--storage.path="+filepath.Join(dir, "data"), config)
	cmd.Dir, cmd.SysProcAttr = dir, asNobody()
	p := rig.Start(t, cmd)
	testkit.Eventually(t, "the missing capabilities are named", func() bool {
		return len(p.Output.Lines("CAP_BPF", "CAP_PERFMON")) > 0
	})

	time.Sleep(time.Second)
	if said := p.Output.Lines("CAP_BPF"); len(said) != 1 {
		t.Errorf("want it said once, got\n%s", strings.Join(said, "\n"))
	}
	for _, line := range []string{"setcap cap_bpf,cap_perfmon,", "AmbientCapabilities=CAP_BPF CAP_PERFMON "} {
		if len(p.Output.Lines(line)) != 1 {
			t.Errorf("%q is not said once", line)
		}
	}
	answer, err := http.Get("http://" + address + "/-/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "pyroscope.ebpf.host") {
		t.Errorf("ready: %s %s %v", answer.Status, text, err)
	}
	if strings.Contains(p.Output.String(), "goroutine ") {
		t.Errorf("it panics:\n%s", p.Output.Tail(40))
	}
}

// asNobody takes every privilege from a program.
func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}
