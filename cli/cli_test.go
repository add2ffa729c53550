package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// TestMain lets the test binary be headwater itself, for tests of exit codes and
// signals.
func TestMain(m *testing.M) {
	if os.Getenv("HEADWATER_TEST_AS_PROGRAM") != "" {
		os.Exit(Execute())
	}
	os.Exit(m.Run())
}

// headwater returns a command that runs headwater with arguments.
func headwater(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "HEADWATER_TEST_AS_PROGRAM=1", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	return cmd
}

// result runs a command to its end.
func result(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run() // the exit code says how it went
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// call runs a command in this process, in an empty folder, and returns its result. It is for
// commands that only check their arguments: a process takes a fifth of a second of CPU time
// to start.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out, err bytes.Buffer
	cmd := Command()
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(&err)
	cmd.SetArgs(append([]string{}, args...)) // cobra takes os.Args in place of nil
	code = exitCode(cmd.Execute())
	return out.String(), err.String(), code
}

func writeConfig(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "c.river")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestFmt(t *testing.T) {
	const ugly, pretty = "logging {\nlevel=\"debug\"\n}", "logging {\n\tlevel = \"debug\"\n}\n"
	run := func(stdin string, args ...string) (stdout, stderr string, code int) {
		cmd := headwater(t, append([]string{"fmt"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		return result(t, cmd)
	}
	for _, args := range [][]string{{}, {"-"}} {
		stdout, stderr, code := run(ugly, args...)
		require.Equal(t, 0, code, stderr)
		require.Equal(t, pretty, stdout)
	}
	path := writeConfig(t, ugly)
	require.NoError(t, os.Chmod(path, 0o600))
	stdout, _, code := run("", path)
	require.Equal(t, 0, code)
	require.Equal(t, pretty, stdout)

	_, stderr, code := run("", "-t", path)
	require.Equal(t, 1, code)
	require.Equal(t, "Error: "+path+" is not formatted\n", stderr)

	stdout, stderr, code = run("", "-w", path)
	require.Equal(t, 0, code, stderr)
	require.Empty(t, stdout)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, pretty, string(written))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	_, stderr, code = run("", "--test", path)
	require.Equal(t, 0, code, stderr)

	_, stderr, code = run(ugly, "-w")
	require.Equal(t, 1, code)
	require.Equal(t, "Error: cannot use -w with standard input\n", stderr)

	stdout, stderr, code = run("x = \n")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "Error: -:")
	require.Contains(t, stderr, "1 | x = \n")
	require.Contains(t, stderr, "\nError: encountered errors during formatting\n")
}

func TestValidate(t *testing.T) {
	good := writeConfig(t, "logging {\n\tlevel = \"debug\"\n}\n")
	bad := writeConfig(t, "nope \"x\" { }\n")
	stdout, stderr, code := result(t, headwater(t, "validate", good))
	require.Equal(t, 0, code)
	require.Empty(t, stderr)
	require.Equal(t, good+" is valid\n", stdout)
	stdout, stderr, code = result(t, headwater(t, "validate", good, bad, bad+".gone"))
	require.Equal(t, 1, code)
	require.Equal(t, good+" is valid\n", stdout)
	require.Equal(t, "Error: "+bad+`:1:1: cannot retrieve the definition of component name "nope"

1 | nope "x" { }
  | ^^^^
2 | 

Error: stat `+bad+`.gone: no such file or directory
Error: 2 of 3 configurations are not valid
`, stderr)
}

// TestValidateModules: imports and modules are read from files and over HTTP, and errors inside them are shown with
// their own text.
func TestValidateModules(t *testing.T) {
	library := "declare \"comp\" {\n\targument \"size\" { }\n\tpyroscope.write \"w\" {\n\t\texternal_labels = " +
		"argument.size.value\n\t}\n}\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lib/comp.river" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, library)
	}))
	defer server.Close()
	file := writeConfig(t, library)
	config := func(labels string) string {
		return writeConfig(t, fmt.Sprintf(`import.file "local" { filename = %q }
import.http "remote" { url = "%s/lib/comp.river" }
module.file "m" {
	filename = file.path_join(module_path, "m.river")
}
local.comp "a" { size = {"x" = "y"} }
remote.comp "b" { size = %s }
`, file, server.URL, labels))
	}
	good := config(`{"x" = "y"}`)
	require.NoError(t,
		os.WriteFile(filepath.Join(filepath.Dir(good), "m.river"), []byte("export \"x\" { value = 1 }\n"), 0o600))
	_, stderr, code := result(t, headwater(t, "validate", "--resolve", good))
	require.Equal(t, 0, code, stderr)

	bad := config(`"text"`)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(bad), "m.river"), nil, 0o600))
	_, stderr, code = result(t, headwater(t, "validate", "--resolve", bad))
	require.Equal(t, 1, code)
	require.Equal(t, `Error: remote:4:21: argument.size.value should be object, got string

3 |     pyroscope.write "w" {
4 |         external_labels = argument.size.value
  |                           ^^^^^^^^^^^^^^^^^^^
5 |     }

Error: 1 of 1 configurations are not valid
`, stderr)
}

func TestValidateNamesUnitsOfDurations(t *testing.T) {
	for _, value := range []string{`3`, `"3"`} {
		config := writeConfig(t, "pyroscope.ebpf \"e\" {\n\tforward_to = []\n\tcollect_interval = "+value+"\n}\n")
		_, stderr, code := result(t, headwater(t, "validate", config))
		require.Equal(t, 1, code)
		require.Contains(t, stderr, `:3:21: a duration needs a unit: "3s" for seconds, got 3`)
	}
}

func TestVersion(t *testing.T) {
	stdout, _, code := result(t, headwater(t, "--version"))
	require.Equal(t, 0, code)
	require.Regexp(t, `^headwater version \S+`, stdout)
}

func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	empty := writeConfig(t, "")
	free := "--server.http.listen-addr=127.0.0.1:0"

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such file": {[]string{"run", free, "/nowhere"},
			"Error: reading config path \"/nowhere\": stat /nowhere: no such file or directory\n"},
		"port in use": {[]string{"run", "--server.http.listen-addr", addr, empty},
			"Error: cannot serve HTTP on " + addr +
				": another program listens on it; choose another address with --server.http.listen-addr\n"},
		"format": {[]string{"run", "--config.format=prometheus", empty},
			"Error: --config.format prometheus: Headwater reads River only (flow or alloy)\n"},
		"ui prefix": {[]string{"run", "--server.http.ui-path-prefix=/{x}", empty},
			"Error: --server.http.ui-path-prefix \"/{x}\": want a path of plain characters that starts with /\n"},
		"syntax error": {[]string{"run", free, writeConfig(t, "x = }\n")}, "expected expression, got }"},
		"first load": {[]string{"run", free, writeConfig(t, "nope \"x\" { }\n")},
			"\n\nError: could not perform the initial load successfully\n"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := result(t, headwater(t, test.args...))
			require.Equal(t, 1, code)
			require.Contains(t, stderr, test.want)
			require.Empty(t, stdout)
			require.NotContains(t, stderr, "goroutine ")
		})
	}
}

// running is a headwater run in the background.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	done chan struct{}

	mu     sync.Mutex
	stderr bytes.Buffer
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.Write(p)
}

func (r *running) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.String()
}

// startRun starts a run, and waits until the configuration is loaded.
func startRun(t *testing.T, args ...string) *running {
	t.Helper()
	r := launchRun(t, args...)
	address := regexp.MustCompile(`http=(http://\S+)/`)
	r.eventually("it runs", func() bool { return address.MatchString(r.printed()) })
	r.url = address.FindStringSubmatch(r.printed())[1]
	return r
}

func launchRun(t *testing.T, args ...string) *running {
	t.Helper()
	cmd := headwater(t, append([]string{"run", "--server.http.listen-addr=127.0.0.1:0"}, args...)...)
	r := &running{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = r
	require.NoError(t, cmd.Start())
	go func() {
		defer close(r.done)
		_ = cmd.Wait() // the exit code says how it went
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended, as it should
		<-r.done
	})
	return r
}

func (r *running) eventually(what string, holds func() bool) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Log(r.printed())
		}
	}()
	testkit.Eventually(r.t, what, holds)
}

func (r *running) get(path string) (code int, body string) {
	r.t.Helper()
	resp, err := http.Get(r.url + path)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(text)
}

// ends waits for the process.
func (r *running) ends() {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		r.t.Fatalf("does not exit\n%s", r.printed())
	}
}

func (r *running) exits(code int) {
	r.t.Helper()
	r.ends()
	require.Equal(r.t, code, r.cmd.ProcessState.ExitCode(), r.printed())
}

// TestInterruptWhileLoading stops run while a component waits for a server that never answers.
func TestInterruptWhileLoading(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	hanging := fmt.Sprintf(`
		remote.http "settings" {
			url            = "http://%s/"
			poll_frequency = "2h"
			poll_timeout   = "1h"
		}`, server.Addr())
	asked := func() {
		_ = server.(*net.TCPListener).SetDeadline(time.Now().Add(2 * time.Minute))
		c, err := server.Accept()
		require.NoError(t, err, "the component has not asked the server")
		t.Cleanup(func() { c.Close() })
	}
	t.Run("first load", func(t *testing.T) {
		r := launchRun(t, writeConfig(t, hanging))
		asked()
		require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
		r.exits(0)
	})
	t.Run("reload", func(t *testing.T) {
		config := writeConfig(t, "")
		r := startRun(t, config)
		require.NoError(t, os.WriteFile(config, []byte(hanging), 0o600))
		require.NoError(t, r.cmd.Process.Signal(syscall.SIGHUP))
		asked()
		require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
		r.exits(0)
	})
}

func TestRun(t *testing.T) {
	config := writeConfig(t, "logging {\n\tlevel = \"info\"\n}\n")
	r := startRun(t, "--cluster.enabled", "--stability.level=experimental", "--disable-reporting", config)
	require.Contains(t, r.printed(),
		`level=warn msg="flags accepted without effect" flags="--cluster.enabled --stability.level"`)
	code, body := r.get("/-/ready")
	require.Equal(t, 200, code)
	require.Equal(t, "Headwater is ready.\n", body)
	code, body = r.get("/metrics")
	require.Equal(t, 200, code)
	require.Contains(t, body, "\nagent_config_last_load_successful 1\n")
	require.Contains(t, body, "\nprocess_open_fds ")

	hangup := func(text, said string) {
		require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
		times := strings.Count(r.printed(), said)
		require.NoError(t, r.cmd.Process.Signal(syscall.SIGHUP))
		r.eventually(said, func() bool { return strings.Count(r.printed(), said) > times })
	}
	hangup("", `level=info msg="config reloaded"`)
	hangup("x = 1\n", fmt.Sprintf(`level=error msg="failed to reload config" err="%s:1:1: unrecognized attribute x" `+
		`consequence="the previous configuration keeps running"`, config))
	code, _ = r.get("/-/reload")
	require.Equal(t, 400, code)
	require.NoError(t, os.Remove(config))
	code, body = r.get("/-/reload")
	require.Equal(t, 400, code)
	require.Contains(t, body, "no such file or directory")
	_, body = r.get("/metrics")
	require.Contains(t, body, "\nagent_config_load_failures_total 3\n")

	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.exits(0)
	require.Contains(t, r.printed(), "interrupt received\n")
}

func TestInterrupt(t *testing.T) {
	r := startRun(t, writeConfig(t, ""))
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	r.exits(0)
}

// hangs opens a request that lasts long after the test.
func (r *running) hangs() {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET /debug/pprof/trace?seconds=600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(r.t, err)
	first := make([]byte, 1)
	require.NoError(r.t, conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
	_, err = conn.Read(first) // the answer has started
	require.NoError(r.t, err)
}

func TestRequestsDoNotHoldUpTheEnd(t *testing.T) {
	r := startRun(t, writeConfig(t, ""))
	r.hangs()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.exits(0)
}

// TestSecondSignalEndsAtOnce sends a second signal while an open request delays the clean stop after the first one, for
// a second. An attempt in which a busy machine delays the second signal by more than that is inconclusive.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	config := writeConfig(t, "")
	for range 20 {
		r := startRun(t, config)
		r.hangs()
		first := time.Now()
		require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
		r.eventually("it stops", func() bool { return strings.Contains(r.printed(), "interrupt received") })
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // it fails if the process has ended
		inTime := time.Since(first) < time.Second
		r.ends()
		if status := r.cmd.ProcessState.Sys().(syscall.WaitStatus); inTime {
			require.True(t, status.Signaled(), "it ended by itself: %v", r.cmd.ProcessState)
			return
		}
	}
	t.Fatal("no second signal was in time")
}
