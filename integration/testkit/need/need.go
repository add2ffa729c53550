// Package need declares a test's requirements of its machine. A missing requirement skips the test, with the reason;
// with REQUIRE_KERNEL=1, as make test and CI set it, it fails the test and names the Debian package.
//
// A test that is skipped for another reason calls Skip itself and is listed in docs/testing.md.
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

// everywhere are commands on every Debian system, and the Go toolchain that runs the test.
var everywhere = []string{"go", "sh", "sleep", "true", "false", "ls", "env", "cat", "chroot"}

// Missing skips the test with the given reason, or fails it if all requirements are mandatory.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Everything() {
		t.Fatalf("REQUIRE_KERNEL=1, but "+format, args...)
	}
	t.Skipf(format, args...)
}

// Everything reports whether all requirements are mandatory.
func Everything() bool { return os.Getenv("REQUIRE_KERNEL") == "1" }

// OtherUsers is for tests that give files to other users and have no other dependency outside the tree: make test may
// use the result that go test has cached.
func OtherUsers(t testing.TB) {
	t.Helper()
	Root(t)
}

// Root is for tests that profile, or change the system. make unit skips them, even when root runs it.
func Root(t testing.TB) {
	t.Helper()
	if os.Getenv("HEADWATER_UNIT") == "1" {
		t.Skip("make unit leaves out what needs root")
	}
	if os.Geteuid() != 0 {
		Missing(t, "this needs root")
	}
}

// Allowed fails the test for an error of opening an object. For an error of type Denied, which means a lack of
// permission, it calls [Missing].
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

// Opened returns the opened object, and closes it when the test ends. It treats err like [Allowed].
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

// Tools is for tests that run commands, or read files of packages by their absolute paths. The table must contain all
// these commands, so that make test installs them; other absolute paths are the test's own programs.
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
			Missing(t, "%s is missing: apt-get install %s, or integration/packages test nightly", name, packaged)
		}
	}
}

// Package returns the Debian package of a tool that tests of make test or make nightly need, "" if the table does not
// contain the tool.
func Package(tool string) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[0] == tool && (fields[2] == "test" || fields[2] == "nightly") {
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
