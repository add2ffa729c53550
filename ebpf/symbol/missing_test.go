package symbol

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
)

func TestDebugFilePutInPlaceLater(t *testing.T) {
	program, dir := separate(t, "-Wl,--build-id=sha1"), t.TempDir()
	o := object(t, 1, program.path)
	other := object(t, 2, program.path)
	s := New(Options{DebugDirs: []string{dir}})
	unknown := s.Frames(o, program.inner, false)[0]
	s.Frames(other, program.inner, false)
	now := time.Now()
	s.refresh(now)
	writeFile(t, program.debug, dir, program.buildIDPath())
	s.refresh(now.Add(firstLook / 2))
	if got := s.Frames(o, program.inner, false)[0]; got != unknown {
		t.Errorf("looked for too soon: %+v", got)
	}
	s.refresh(now.Add(firstLook))
	for _, o := range []*Object{o, other} {
		if got := s.Frames(o, program.inner, false)[0]; got.Function != "inner" {
			t.Errorf("object %d: %+v", o.ID, got)
		}
	}
	if status, _ := s.Status(o); status.Reason != Named || s.Explain(o) != "" {
		t.Errorf("status %+v, %q", status, s.Explain(o))
	}
}

// The interval between searches grows up to a limit.
func TestLooksAreFewer(t *testing.T) {
	program := separate(t, "-Wl,--build-id=sha1")
	o, s := object(t, 1, program.path), New(Options{DebugDirs: []string{t.TempDir()}})
	s.Frames(o, program.inner, false)
	looks := 0
	start := time.Now()
	for at := start; at.Before(start.Add(time.Hour)); at = at.Add(time.Second) {
		if _, due := s.tables.missing(at); len(due) > 0 {
			looks++
		}
	}
	if looks < 12 || looks > 20 {
		t.Errorf("%d looks in an hour", looks)
	}
}

// fetcher is a Fetcher with files set by a test.
type fetcher struct {
	path  string
	asked string
}

func (f *fetcher) Path(buildID string) (string, error) {
	f.asked = buildID
	if f.path == "" {
		return "", errors.New("on its way")
	}
	return f.path, nil
}

func TestFetchedDebugFile(t *testing.T) {
	program, remote := separate(t, "-Wl,--build-id=sha1"), &fetcher{}
	o, s := object(t, 1, program.path), New(Options{DebugDirs: []string{t.TempDir()}, Fetcher: remote})
	if got := s.Frames(o, program.inner, false)[0]; got.Kind != Unknown || remote.asked != program.buildID {
		t.Errorf("%+v, asked for %s", got, remote.asked)
	}
	if text := s.Explain(o); !strings.HasSuffix(text, "; on its way") {
		t.Errorf("explained as %q", text)
	}
	other := separate(t, "-Wl,--build-id=sha1", "-DOTHER=1", "-O2")
	remote.path = writeFile(t, other.debug, t.TempDir(), "wrong")
	s.Refresh()
	if got := s.Frames(o, program.inner, false)[0]; got.Kind != Unknown {
		t.Errorf("by another program's debug file: %+v", got)
	}
	remote.path = writeFile(t, program.debug, t.TempDir(), "debuginfo")
	s.Refresh()
	if got := s.Frames(o, program.inner, false)[0]; got.Function != "inner" {
		t.Errorf("%+v", got)
	}
}

func TestExplain(t *testing.T) {
	program, dir := separate(t, "-Wl,--build-id=sha1"), t.TempDir()
	root := t.TempDir()
	writeFile(t, []byte("/.\n/usr\n/bin/tool\n"), root, "var/lib/dpkg/info/tools:amd64.list")
	o := object(t, 1, program.path)
	o.Path, o.Root = "/usr/bin/tool", root
	s := New(Options{DebugDirs: []string{dir}})
	if got := s.Explain(o); got != "" {
		t.Errorf("before it was asked for: %q", got)
	}
	s.Frames(o, program.inner, false)
	want := "only exported functions have names; the debug file of build ID " + program.buildID + " is missing at " +
		filepath.Join(dir, program.buildIDPath()) + ", install tools-dbgsym"
	status, _ := s.Status(o)
	if status.Reason == NoSymbols {
		want = strings.Replace(want, "only exported functions have names", "the file has no symbols", 1)
	}
	if got := s.Explain(o); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// The root of an ended process is gone; the file is identified by its build ID.
func TestExplainAfterTheEnd(t *testing.T) {
	path := library(t, "liblzma.so.5")
	if _, err := os.Stat("/var/lib/dpkg/info"); err != nil {
		need.Missing(t, "this is no Debian system: %v", err)
	}
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, path)
	o.Root = filepath.Join(t.TempDir(), "gone")
	s.Frames(o, 1, false)
	if got := s.Explain(o); !strings.Contains(got, ", install liblzma5-dbgsym") {
		t.Errorf("explained as %q", got)
	}
}

// dpkg itself reports the owner of the shell.
func TestDpkgOwner(t *testing.T) {
	const info = "/var/lib/dpkg/info"
	if _, err := os.Stat(info); err != nil {
		need.Missing(t, "this is no Debian system: %v", err)
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{shell, strings.TrimPrefix(shell, "/usr"), library(t, "libc.so.6")} {
		if owner := dpkgOwner("", info, file); owner == "" ||
			!strings.Contains(run(t, "", "dpkg", "-L", owner), strings.TrimPrefix(file, "/usr")) {
			t.Errorf("%s belongs to %q", file, owner)
		}
	}
}
