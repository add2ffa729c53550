// Package need says what a test needs of the machine that it runs on. What is
// missing skips the test, with the reason; with REQUIRE_KERNEL=1, as make test
// and CI set it, it fails the test and names the Debian package.
//
// A test that is left out for another reason calls Skip itself and is listed in
// docs/testing.md.
package need

import (
	_ "embed"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed table
var table string

// everywhere are commands of every Debian system, and the Go that runs the test.
var everywhere = []string{"go", "sh", "sleep", "true", "false", "ls", "env", "cat", "chroot"}

// Missing skips the test because of what the text says, or fails it where
// everything must be there.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Everything() {
		t.Fatalf("REQUIRE_KERNEL=1, but "+format, args...)
	}
	t.Skipf(format, args...)
}

// Everything reports whether a test may miss nothing.
func Everything() bool { return os.Getenv("REQUIRE_KERNEL") == "1" }

// OtherUsers is for tests that give files to other users, and depend on nothing else outside the tree: make test may
// use the result that go test has cached.
func OtherUsers(t testing.TB) {
	t.Helper()
	Root(t)
}

// Root is for tests that profile, or change the system. make unit leaves them out,
// whoever runs it.
func Root(t testing.TB) {
	t.Helper()
	if os.Getenv("HEADWATER_UNIT") == "1" {
		t.Skip("make unit leaves out what needs root")
	}
	if os.Geteuid() != 0 {
		Missing(t, "this needs root")
	}
}

// Allowed fails the test for the error of opening something. For one of type Denied, which says that this process may
// not, it leaves the test out as [Missing] does.
func Allowed[Denied error](t testing.TB, err error) {
	t.Helper()
	var denied Denied
	if errors.As(err, &denied) {
		Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Opened returns what was opened, and closes it when the test ends. The error is as for [Allowed].
func Opened[Denied error, T io.Closer](t testing.TB, opened T, err error) T {
	t.Helper()
	Allowed[Denied](t, err)
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened
}

// Tools is for tests that run commands, or read the files of packages by their
// absolute paths. The table must have all commands, so that make test installs
// them; other absolute paths are programs of the test's own.
func Tools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		packaged := Package(name)
		switch {
		case slices.Contains(everywhere, name), packaged == "" && filepath.IsAbs(name):
			continue
		case packaged == "":
			t.Fatalf("%s is not in integration/testkit/need/table", name)
		}
		if !present(name) {
			Missing(t, "%s is missing: apt-get install %s, or integration/packages test", name, packaged)
		}
	}
}

// Package returns the Debian package of a tool that tests need, "" if the table
// does not have it.
func Package(tool string) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[0] == tool && fields[2] == "test" {
			return fields[1]
		}
	}
	return ""
}

func present(tool string) bool {
	if filepath.IsAbs(tool) {
		_, err := os.Stat(tool)
		return err == nil
	}
	_, err := exec.LookPath(tool)
	return err == nil
}
