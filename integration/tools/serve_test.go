package tools

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// serve starts headwater serve, and returns the URL of its page.
func serve(t *testing.T, files ...string) (url string, cmd *exec.Cmd) {
	cmd = exec.Command(rig.Binary(t), append([]string{"serve", "--listen", "127.0.0.1:0"}, files...)...)
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.Fields(line)[0], cmd
}

func get(t *testing.T, url string) (body string, status int) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(data), answer.StatusCode
}

// TestServe: files are listed, shown and downloaded as they are now, and SIGINT ends the server with code 0.
func TestServe(t *testing.T) {
	t.Parallel()
	one, two := filepath.Join(t.TempDir(), "one.folded"), filepath.Join(t.TempDir(), "two.folded")
	require.NoError(t, os.WriteFile(one, []byte("main;hot 90\nmain;cold 10\n"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("main;second 5\n"), 0o600))
	url, cmd := serve(t, one, two)
	index, status := get(t, url)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, index, one)
	require.Contains(t, index, two)
	page, status := get(t, url+"1/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, `data-tree="/1/tree"`)
	tree, _ := get(t, url+"1/tree")
	require.Contains(t, tree, `"hot"`)
	require.NotContains(t, tree, `"second"`)
	for _, format := range export.Formats() {
		body, status := get(t, url+"1/download?format="+format.Name)
		switch {
		case format.Name == "trace": // which needs the times of samples
			require.Equal(t, http.StatusUnprocessableEntity, status)
			require.Contains(t, body, "one.folded as trace: ")
		case format.Name == "autofdo": // autofdo only has functions with lines
			require.Equal(t, http.StatusOK, status)
		default:
			require.True(t, status == http.StatusOK && body != "", "%s: %d %s", format.Name, status, body)
		}
	}
	body, _ := get(t, url+"1/download?format=pprof")
	p, err := profile.Parse(strings.NewReader(body))
	require.NoError(t, err)
	require.Len(t, p.Sample, 2)

	before, _ := get(t, url+"version")
	require.NoError(t, os.WriteFile(one, []byte("main;changed 7000\n"), 0o600))
	after, _ := get(t, url+"version")
	require.NotEqual(t, before, after)
	tree, _ = get(t, url+"1/tree")
	require.Contains(t, tree, `"changed"`)
	require.NoError(t, os.Remove(one))
	index, _ = get(t, url)
	require.Contains(t, index, "no such file")
	_, status = get(t, url+"9/")
	require.Equal(t, http.StatusNotFound, status)

	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("it has not ended")
	}
}

// TestServeForeignName: a page of another site whose name points here gets no data.
func TestServeForeignName(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "one.folded")
	require.NoError(t, os.WriteFile(file, []byte("main;hot 90\n"), 0o600))
	url, _ := serve(t, file)
	r, err := http.NewRequest(http.MethodGet, url+"1/tree", nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusForbidden, answer.StatusCode)

	out, err := exec.Command(rig.Binary(t), "serve", "--listen", "0.0.0.0:0", file).CombinedOutput()
	require.ErrorContains(t, err, "exit status 2")
	require.Contains(t, string(out), "--public allows it")
}
