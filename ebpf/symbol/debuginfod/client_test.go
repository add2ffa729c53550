package debuginfod

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
)

// patience is the time limit of the tests.
const patience = time.Minute

// wait requests a build ID until there is a file or a final answer.
func wait(t *testing.T, c *Client, buildID string) (string, error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		path, err := c.Path(buildID)
		if err == nil || !errors.Is(err, errPending) {
			return path, err
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer for %s", buildID)
		}
	}
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	if o.CacheDir == "" {
		o.CacheDir = t.TempDir()
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const id = "00112233445566778899aabbccddeeff00112233"

func TestNegativeAnswersAreRemembered(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer server.Close()
	c := client(t, Options{URLs: []string{server.URL}})
	for range 10 {
		if _, err := wait(t, c, id); !errors.Is(err, ErrNotFound) {
			t.Fatalf("error %v, want ErrNotFound", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if s := c.Stats(); s != (Stats{NotFound: 1}) {
		t.Errorf("stats %+v", s)
	}
}

func TestServersAreAskedInTheirOrder(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	defer broken.Close()
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/x/buildid/"+id+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "debug")
	}))
	defer good.Close()
	c := client(t, Options{URLs: []string{broken.URL, good.URL + "/x/"}})
	path, err := wait(t, c, id)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "debug" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := wait(t, c, "ffff"+id); err == nil || errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "500") {
		t.Errorf("one broken, one without: %v", err)
	}
}

func TestBadAnswersLeaveNothing(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	for name, handler := range map[string]http.HandlerFunc{
		"cut short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "only this")
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2000)) },
		"silent": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			dir := t.TempDir()
			c := client(t, Options{URLs: []string{server.URL}, CacheDir: dir, CacheSize: 1000,
				Timeout: 300 * time.Millisecond})
			if path, err := wait(t, c, id); err == nil {
				t.Errorf("got %s", path)
			}
			if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.Write(make([]byte, 300))
	}))
	defer server.Close()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/foreign", make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{URLs: []string{server.URL}, CacheDir: dir, CacheSize: 1000})
	for i := range 10 {
		one := fmt.Sprintf("%08x", i)
		if _, err := wait(t, c, one); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-1000) * time.Second)
		if err := os.Chtimes(c.pathOf(one), old, old); err != nil {
			t.Fatal(err)
		}
	}
	files, err := listFiles(dir)
	if err != nil || len(files) == 0 || len(files) > 3 {
		t.Errorf("%d files left, %v", len(files), err)
	}
	if _, err := os.Stat(c.pathOf(fmt.Sprintf("%08x", 9))); err != nil {
		t.Errorf("the newest file is gone: %v", err)
	}
	if _, err := os.Stat(dir + "/foreign"); err != nil {
		t.Errorf("a file of somebody else's: %v", err)
	}
}

func TestBuildIDsAreChecked(t *testing.T) {
	c := client(t, Options{URLs: []string{"http://127.0.0.1:1"}})
	for _, bad := range []string{"", "ab", "../../etc", "ABCDEF00", strings.Repeat("a", 200)} {
		if _, err := c.Path(bad); err == nil || errors.Is(err, errPending) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := New(Options{URLs: []string{"ftp://x"}}); err == nil {
		t.Error("no error for an ftp URL")
	}
}

// TestRealServer downloads from elfutils' own server.
func TestRealServer(t *testing.T) {
	need.Tools(t, "debuginfod", "gcc", "objcopy")
	dir := t.TempDir()
	debug, buildID := makeDebugFile(t, dir)
	c := client(t, Options{URLs: []string{serve(t, dir)}})
	var path string
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		var err error
		if path, err = wait(t, c, buildID); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		c.mu.Lock()
		clear(c.state) // the server has not scanned the folder yet
		c.mu.Unlock()
	}
	got, err := os.ReadFile(path)
	want, failed := os.ReadFile(debug)
	if err != nil || failed != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d; %v, %v", len(got), len(want), err, failed)
	}
	if _, err := wait(t, c, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a build ID that nobody has: %v", err)
	}
}

// makeDebugFile makes a debug file in dir/debug.
func makeDebugFile(t *testing.T, dir string) (debug, buildID string) {
	t.Helper()
	debug = filepath.Join(dir, "debug", "program.debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("gcc", "-g", "-Wl,--build-id=sha1", "-x", "c", "-o", program, "-")
	cmd.Stdin = strings.NewReader("int main(void) { return 0; }")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command("objcopy", "--only-keep-debug", program, debug).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	note, err := f.Section(".note.gnu.build-id").Data()
	if err != nil {
		t.Fatal(err)
	}
	return debug, fmt.Sprintf("%x", note[16:])
}

// serve runs debuginfod over dir/debug and returns its URL.
func serve(t *testing.T, dir string) string {
	t.Helper()
	for range 5 {
		if url, ok := tryServe(t, dir); ok {
			return url
		}
	}
	t.Fatal("debuginfod does not run")
	return ""
}

// tryServe gives up when debuginfod exits, because another program may have taken its port.
func tryServe(t *testing.T, dir string) (url string, ok bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("debuginfod", "-F", "-p", port, "-d", filepath.Join(dir, "index.sqlite"), "-t", "1",
		filepath.Join(dir, "debug"))
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			return "", false
		default:
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return "http://" + address, true
		}
	}
	return "", false
}
