package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// versions are what tools say of their versions.
var versions sync.Map

// version returns what a tool says of its version.
func version(t testing.TB, tool string, args ...string) string {
	t.Helper()
	if text, ok := versions.Load(tool); ok {
		return text.(string)
	}
	out, err := exec.Command(tool, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	versions.Store(tool, string(out))
	return string(out)
}

// compiled returns the program that a C or C++ compiler makes with arguments; arguments in testdata are sources. It is
// built once for each version of the compiler and of the sources.
func compiled(t testing.TB, program, compiler string, args ...string) string {
	t.Helper()
	need.Tools(t, compiler)
	key := append([]string{version(t, compiler, "--version")}, args...)
	for _, arg := range args {
		if strings.Contains(arg, "testdata/") {
			key = append(key, rig.ReadFile(t, arg))
		}
	}
	folder := testkit.Fixture(t, program, key, func(dir string) error {
		return makes(exec.Command(compiler, append([]string{"-o", filepath.Join(dir, program)}, args...)...))
	})
	return filepath.Join(folder, program)
}

// compiledJava returns the folder of the classes of a file of Java.
func compiledJava(t testing.TB, source string) string {
	t.Helper()
	need.Tools(t, "java", "javac")
	key := []string{version(t, "javac", "-version"), rig.ReadFile(t, source)}
	return testkit.Fixture(t, filepath.Base(source), key, func(dir string) error {
		return makes(exec.Command("javac", "-d", dir, source))
	})
}

// compiledGo returns the program that the Go of this test makes of a package without other packages of this module,
// with a flag and a variable of the environment.
func compiledGo(t testing.TB, program, source, variable, flag string) string {
	t.Helper()
	key := []string{runtime.Version(), variable, flag}
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		key = append(key, rig.ReadFile(t, file))
	}
	folder := testkit.Fixture(t, program, key, func(dir string) error {
		cmd := exec.Command("go", "build", flag, "-o", filepath.Join(dir, program), source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", variable)
		return makes(cmd)
	})
	return filepath.Join(folder, program)
}

// chain returns the chain program of that name.
func chain(t testing.TB, name string) string {
	t.Helper()
	need.Tools(t, "gcc")
	key := append([]string{version(t, "gcc", "--version"), rig.ReadFile(t, "../testkit/rig/chain.go")},
		rig.WithoutFramePointers...)
	sources, err := filepath.Glob("../testkit/rig/testdata/chain/*")
	require.NoError(t, err)
	for _, source := range sources {
		key = append(key, rig.ReadFile(t, source))
	}
	folder := testkit.Fixture(t, name, key, func(dir string) error {
		return os.CopyFS(dir, os.DirFS(filepath.Dir(rig.ChainProgram(t, name))))
	})
	return filepath.Join(folder, name)
}

// startChain runs the chain program of that name until the test ends, and waits until it is busy.
func startChain(t testing.TB, name string) *rig.Process {
	t.Helper()
	p := rig.StartChain(t, chain(t, name), 600)
	p.WaitBusy(t)
	return p
}

// makes runs a command that makes files.
func makes(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
