package testkit

import (
	"os/exec"
	"sync"
	"testing"
)

// versions caches the results of Version, by tool.
var versions sync.Map

// Version returns the tool's output for --version, as a part of the key of a [Fixture] that the tool builds. It runs
// the tool once.
func Version(t testing.TB, tool string) string {
	t.Helper()
	if known, ok := versions.Load(tool); ok {
		return known.(string)
	}
	out, err := exec.Command(tool, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", tool, err)
	}
	versions.Store(tool, string(out))
	return string(out)
}
