package integration

import (
	"os"
	"os/exec"
	"testing"
)

// missing skips a test for want of something, or fails it where everything
// is expected to be there.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_KERNEL") == "1" {
		t.Fatalf("REQUIRE_KERNEL=1, but "+format, args...)
	}
	t.Skipf(format, args...)
}

// requireRoot skips a test that needs to profile, or to change cgroups.
func requireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "this needs root")
	}
}

// requireTools skips a test that needs programs which are not there.
func requireTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, "%s is not installed: run integration/packages test", name)
		}
	}
}
