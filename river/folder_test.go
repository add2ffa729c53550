package river

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/local/file"
	"github.com/headwater/headwater/component/remote/git"
	"github.com/headwater/headwater/integration/testkit/need"
)

// newFolderHost returns a host with the components that read real files and repositories.
func newFolderHost(t *testing.T) *host {
	t.Helper()
	h := newHost(t)
	registry, err := component.NewRegistry(file.Registration(), git.Registration(), component.Registration{
		Name: "test.value", Args: specimenArgs{}, Exports: specimenExports{}, Build: h.lab.build,
	})
	require.NoError(t, err)
	h.Runtime = New(Options{
		Registry: registry, Logger: NewLogger(h.log), DataPath: t.TempDir(), Registerer: prometheus.NewRegistry(),
		StopTimeout: 2 * time.Second,
	})
	return h
}

// declares returns a declaration of a component that exports a value.
func declares(name, value string) string {
	return "declare \"" + name + "\" { export \"value\" { value = " + value + " } }\n"
}

// writeFolder makes a folder with two modules, and with files that are none.
func writeFolder(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "modules")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "deeper.alloy"), 0o755))
	for name, text := range map[string]string{
		"one.alloy": declares("one", `"1"`), "two.river": declares("two", "module_path"),
		"notes.txt": "no module", "deeper.alloy/three.alloy": declares("one", `"3"`),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

const usesFolder = `
	lib.one "a" { }
	lib.two "b" { }
	test.value "sink" { list = [lib.one.a.value, lib.two.b.value] }`

// TestImportFolder: import.file reads all modules of a folder, and follows changes of its files.
func TestImportFolder(t *testing.T) {
	folder := writeFolder(t)
	h := newFolderHost(t)
	h.runs(`import.file "lib" { filename = "` + folder + `" }` + usesFolder)
	list := func() []string { return h.get("test.value.sink").current().List }
	require.Equal(t, []string{"1", folder}, list())

	one := filepath.Join(folder, "one.alloy")
	require.NoError(t, os.WriteFile(one, []byte(declares("one", `"new"`)), 0o600))
	h.eventually("the new text is used", func() bool { return list()[0] == "new" })
	require.NoError(t, os.WriteFile(filepath.Join(folder, "more.alloy"), []byte(declares("one", `"twice"`)), 0o600))
	h.eventually("the import is unhealthy", func() bool { return len(h.Unhealthy()) > 0 })
	health, _ := h.ModuleImports("")
	require.Contains(t, health[0].Health.Message, "lib/one.alloy:1:1: declare block redefined one")
	require.Equal(t, []string{"new", folder}, list())
	require.NoError(t, os.Remove(one))
	h.eventually("the other file declares it", func() bool { return list()[0] == "twice" })
	h.eventually("all is healthy", func() bool { return len(h.Unhealthy()) == 0 })
}

// TestFolderIsNoFile: only import blocks read folders.
func TestFolderIsNoFile(t *testing.T) {
	h := newFolderHost(t)
	require.ErrorContains(t, h.load(`module.file "m" { filename = "`+writeFolder(t)+`" }`), "is a directory")
}

// TestImportGitFolder: import.git reads all modules of a folder of a repository.
func TestImportGitFolder(t *testing.T) {
	need.Tools(t, "git")
	folder := writeFolder(t)
	run := func(arguments ...string) {
		identity := []string{"-C", filepath.Dir(folder), "-c", "user.name=a", "-c", "user.email=a@example.com"}
		cmd := exec.Command("git", append(identity, arguments...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("init", "--quiet", "--initial-branch=main")
	run("add", ".")
	run("commit", "--quiet", "-m", "x")
	for _, path := range []string{"modules", "/modules/", "./modules"} {
		h := newFolderHost(t)
		stop := h.runs(`import.git "lib" {
			repository = "` + filepath.Dir(folder) + `"
			revision   = "main"
			path       = "` + path + `"
		}` + usesFolder)
		require.Equal(t, "1", h.get("test.value.sink").current().List[0])
		stop()
	}
}
