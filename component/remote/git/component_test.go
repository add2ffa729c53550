package git

import (
	"context"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river/encoding/riverjson"
	"github.com/grafana/river/parser"
	"github.com/grafana/river/vm"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/integration/testkit/need"
)

// origin is a repository to read from.
type origin struct {
	t   *testing.T
	dir string
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	need.Tools(t, "git")
	o := &origin{t: t, dir: filepath.Join(t.TempDir(), "origin")}
	o.git("init", "--quiet", "--initial-branch=main", o.dir)
	return o
}

func (o *origin) git(arguments ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", arguments...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(o.t, err, "git %v: %s", arguments, out)
	return strings.TrimSpace(string(out))
}

// commit writes a file and returns the commit that has it.
func (o *origin) commit(name, text string) string {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	require.NoError(o.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(o.t, os.WriteFile(path, []byte(text), 0o644))
	o.git("-C", o.dir, "add", ".")
	o.git("-C", o.dir, "commit", "--quiet", "-m", "x")
	return o.git("-C", o.dir, "rev-parse", "HEAD")
}

// reader is a remote.git with its latest export.
type reader struct {
	*Component
	content chan string
}

func build(t *testing.T, dataPath string, arguments Arguments) (*reader, error) {
	t.Helper()
	r := &reader{content: make(chan string, 100)}
	options := component.Options{
		ID: "remote.git.test", Logger: log.NewNopLogger(), DataPath: dataPath,
		OnStateChange: func(e component.Exports) { r.content <- e.(Exports).Content.Value },
	}
	built, err := Registration().Build(options, arguments)
	if err == nil {
		r.Component = built.(*Component)
	}
	return r, err
}

func with(o *origin, change func(*Arguments)) Arguments {
	var a Arguments
	a.SetToDefault()
	a.Repository, a.Path = o.dir, "modules/m.river"
	if change != nil {
		change(&a)
	}
	return a
}

func TestRevisions(t *testing.T) {
	o := newOrigin(t)
	first := o.commit("modules/m.river", "first")
	o.git("-C", o.dir, "tag", "-a", "-m", "x", "v1")
	o.git("-C", o.dir, "checkout", "--quiet", "-b", "topic/x")
	topic := o.commit("modules/m.river", "topic")
	o.git("-C", o.dir, "checkout", "--quiet", "main")
	second := o.commit("modules/m.river", "second")

	for revision, want := range map[string][2]string{
		"HEAD": {"second", second}, "main": {"second", second}, "v1": {"first", first}, "topic/x": {"topic", topic},
		first: {"first", first}, first[:10]: {"first", first}, "refs/tags/v1": {"first", first},
	} {
		r, err := build(t, t.TempDir(), with(o, func(a *Arguments) { a.Revision = revision }))
		require.NoError(t, err, revision)
		require.Equal(t, want[0], <-r.content, revision)
		require.Equal(t, debugInfo{SHA: want[1]}, r.DebugInfo(), revision)
		require.Equal(t, component.HealthTypeHealthy, r.CurrentHealth().Health)
	}
}

func TestUpdates(t *testing.T) {
	o := newOrigin(t)
	o.commit("modules/m.river", "first")
	data := t.TempDir()
	r, err := build(t, data, with(o, func(a *Arguments) { a.PullFrequency = 10 * time.Millisecond }))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	o.commit("modules/m.river", "second")
	o.git("-C", o.dir, "commit", "--quiet", "--amend", "-m", "rewritten") // a forced update
	waitFor(t, r.content, "second")

	o.git("-C", o.dir, "rm", "--quiet", "modules/m.river")
	o.git("-C", o.dir, "commit", "--quiet", "-m", "gone")
	require.Eventually(t, func() bool {
		health := r.CurrentHealth()
		return health.Health == component.HealthTypeUnhealthy &&
			strings.Contains(health.Message, "has no file modules/m.river")
	}, time.Minute, 10*time.Millisecond)
	o.commit("modules/m.river", "back")
	waitFor(t, r.content, "back")
	cancel()
	require.NoError(t, <-done)

	// The repository is gone: the copy is used, and the health says so.
	require.NoError(t, os.Rename(o.dir, o.dir+".away"))
	r, err = build(t, data, with(o, nil))
	require.NoError(t, err)
	require.Equal(t, "back", <-r.content)
	require.Equal(t, component.HealthTypeUnhealthy, r.CurrentHealth().Health)
	require.Contains(t, r.CurrentHealth().Message, "fetching "+o.dir)

	// Another repository does not get the first one's file.
	_, err = build(t, data, with(&origin{dir: o.dir + ".other"}, nil))
	require.ErrorContains(t, err, "does not appear to be a git repository")
}

// TestKeepsFolderBefore: a new commit's folder leaves the folder of the commit before, even if that was the oldest.
func TestKeepsFolderBefore(t *testing.T) {
	o := newOrigin(t)
	first, second := o.commit("m.river", "first"), o.commit("m.river", "second")
	third := o.commit("m.river", "third")
	r := newRepository(t.TempDir(), with(o, nil))
	require.NoError(t, r.fetch(context.Background()))
	checkOut := func(commit string) string {
		folder, err := r.checkOut(context.Background(), commit)
		require.NoError(t, err)
		return folder
	}
	old := time.Now().Add(-time.Hour)
	for _, commit := range []string{first, second} {
		folder := checkOut(commit)
		require.NoError(t, os.Chtimes(folder, old, old))
		old = old.Add(time.Minute)
	}
	before := checkOut(first)
	require.DirExists(t, checkOut(third))
	require.DirExists(t, before)
}

func waitFor(t *testing.T, contents <-chan string, want string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case content := <-contents:
			if content == want {
				return
			}
		case <-timeout:
			t.Fatalf("no content %q", want)
		}
	}
}

func TestRefuses(t *testing.T) {
	o := newOrigin(t)
	o.commit("modules/m.river", "first")
	for want, change := range map[string]func(*Arguments){
		"has no revision nowhere":        func(a *Arguments) { a.Revision = "nowhere" },
		"has no file nowhere at HEAD":    func(a *Arguments) { a.Path = "nowhere" },
		"modules in " + o.dir + " is no": func(a *Arguments) { a.Path = "modules" },
		"has no file etc/passwd at HEAD": func(a *Arguments) { a.Path = "../../etc/passwd" },
		"transport 'ext' not allowed":    func(a *Arguments) { a.Repository = "ext::touch x" },
		"fetching http://127.0.0.1:1/r":  func(a *Arguments) { a.Repository = "http://u:s3cret@127.0.0.1:1/r" },
	} {
		_, err := build(t, t.TempDir(), with(o, change))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	t.Setenv("PATH", t.TempDir())
	_, err := build(t, t.TempDir(), with(o, nil))
	require.ErrorContains(t, err, "install it (Debian: apt-get install git)")
}

// TestBasicAuth reads from git's own HTTP server, which asks for a password.
func TestBasicAuth(t *testing.T) {
	o := newOrigin(t)
	o.commit("modules/m.river", "over HTTP")
	backend := filepath.Join(o.git("--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		need.Missing(t, "git's HTTP server is missing: %v", err)
	}
	handler := &cgi.Handler{Path: backend,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.dir), "GIT_HTTP_EXPORT_ALL=1"}}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		for _, line := range commandLines(t) {
			if strings.Contains(line, "s3cret") {
				t.Errorf("every user of this host sees the password: %s", line)
			}
		}
		if user, password, _ := r.BasicAuth(); user != "me" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	over := func(password string) Arguments {
		return with(o, func(a *Arguments) {
			a.Repository = server.URL + "/origin/.git"
			a.BasicAuth = &BasicAuth{Username: "me", Password: "s3cret"}
			if password != "" {
				a.BasicAuth.Password = "wrong"
			}
		})
	}
	r, err := build(t, t.TempDir(), over(""))
	require.NoError(t, err)
	require.Equal(t, "over HTTP", <-r.content)
	_, err = build(t, t.TempDir(), over("wrong"))
	require.ErrorContains(t, err, "fetching "+server.URL)

	inURL := strings.Replace(server.URL, "://", "://me:s3cret@", 1)
	r, err = build(t, t.TempDir(), with(o, func(a *Arguments) { a.Repository = inURL + "/origin/.git" }))
	require.NoError(t, err)
	require.Equal(t, "over HTTP", <-r.content)
	_, err = build(t, t.TempDir(), with(o, func(a *Arguments) { a.Repository = inURL + "/nowhere/.git" }))
	require.ErrorContains(t, err, "fetching "+server.URL+"/nowhere/.git: ")
	require.NotContains(t, err.Error(), "s3cret")
	require.Greater(t, requests, 4)
}

// commandLines returns the command lines of git and its child processes.
func commandLines(t *testing.T) (lines []string) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range all {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), "git") {
			lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	if len(lines) == 0 {
		t.Error("no git runs while it asks for a repository")
	}
	return lines
}

func TestSSHEnvironment(t *testing.T) {
	key := &SSHKey{Username: "it's me", Key: "secret key", Passphrase: "secret phrase"}
	variables, cleanUp, err := key.environment()
	require.NoError(t, err)
	joined := strings.Join(variables, "\n")
	require.Contains(t, joined, `-l 'it'\''s me'`)
	require.NotContains(t, joined, "secret key")
	var ask string
	for _, variable := range variables {
		if path, ok := strings.CutPrefix(variable, "SSH_ASKPASS="); ok {
			ask = path
		}
	}
	cmd := exec.Command(ask)
	cmd.Env = variables
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "secret phrase\n", string(out))
	info, err := os.Stat(filepath.Join(filepath.Dir(ask), "key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	cleanUp()
	_, err = os.Stat(ask)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestArguments(t *testing.T) {
	for _, test := range [][2]string{
		{`repository = "r"` + "\n" + `path = "p"`, ""},
		{`repository = "-x"` + "\n" + `path = "p"`, "repository must be the URL or path of a repository"},
		{`repository = "https://u:100%@h/r"` + "\n" + `path = "p"`,
			"repository must be a valid URL: write %25 for %, %2F for / and %40 for @ in its user name and password"},
		{`repository = "ssh://u:p@h/r"` + "\n" + `path = "p"`,
			"repository must start with http:// or https:// for a password in it; use ssh_key for SSH"},
		{`repository = "r"` + "\n" + `path = ""`, "path must be the path of a file in the repository"},
		{`repository = "r"` + "\n" + `path = "p"` + "\n" + `revision = "-f"`, "revision must be a tag, a branch or a commit"},
		{`repository = "r"` + "\n" + `path = "p"` + "\n" + `ssh_key { username = "git" }`,
			"repository needs either key or key_file in the ssh_key block"},
		{`repository = "r"` + "\n" + `path = "p"` + "\n" + "basic_auth {\n username = \"a\"\n password = \"b\"\n}",
			"repository must start with http:// or https:// for basic_auth"},
	} {
		text, want := test[0], test[1]
		file, err := parser.ParseFile("c.river", []byte(text))
		require.NoError(t, err)
		var arguments Arguments
		err = vm.New(file).Evaluate(nil, &arguments)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, "HEAD", arguments.Revision)
			require.Equal(t, time.Minute, arguments.PullFrequency)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

// A password in the URL is shown in no place that shows arguments.
func TestPasswordIsASecret(t *testing.T) {
	file, err := parser.ParseFile("c.river", []byte(`repository = "https://me:p%40ss@h/r"`+"\n"+`path = "p"`))
	require.NoError(t, err)
	var arguments Arguments
	require.NoError(t, vm.New(file).Evaluate(nil, &arguments))
	shown, err := riverjson.MarshalBody(arguments)
	require.NoError(t, err)
	require.NotContains(t, string(shown), "ss@")
	require.NotContains(t, string(shown), "p%40")
	require.Contains(t, string(shown), `"https://h/r"`)
	require.EqualValues(t, "p@ss", arguments.BasicAuth.Password)
}
