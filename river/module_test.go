package river

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/grafana/river/rivertypes"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/integration/testkit/need"
)

// textFile replaces local.file. The test sets its content.
type textFile struct {
	lab     *lab
	options component.Options

	mu     sync.Mutex
	name   string
	health component.Health
}

type textFileArgs struct {
	Filename string `river:"filename,attr"`
}

type textFileExports struct {
	Content rivertypes.OptionalSecret `river:"content,attr"`
}

func (l *lab) buildTextFile(options component.Options, arguments component.Arguments) (component.Component, error) {
	f := &textFile{lab: l, options: options, health: healthNow(component.HealthTypeHealthy, "read file")}
	if err := f.Update(arguments); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers = append(l.readers, f)
	return f, nil
}

func (f *textFile) Update(arguments component.Arguments) error {
	f.mu.Lock()
	f.name = arguments.(textFileArgs).Filename
	f.mu.Unlock()
	return f.read()
}

func (f *textFile) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lab.mu.Lock()
	text, found := f.lab.files[f.name]
	f.lab.mu.Unlock()
	if !found {
		return fmt.Errorf("no file %s", f.name)
	}
	f.options.OnStateChange(textFileExports{Content: rivertypes.OptionalSecret{Value: text}})
	return nil
}

func (f *textFile) CurrentHealth() component.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

func (f *textFile) setHealth(kind component.HealthType, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health = healthNow(kind, message)
}

func (f *textFile) Run(ctx context.Context) error {
	f.lab.log("run", f.options.ID)
	<-ctx.Done()
	f.lab.log("end", f.options.ID)
	return nil
}

// write changes a file and makes all its readers read it.
func (l *lab) write(name, text string) {
	l.mu.Lock()
	l.files[name] = text
	readers := append([]*textFile(nil), l.readers...)
	l.mu.Unlock()
	for _, f := range readers {
		_ = f.read() // only an error of another file's reader
	}
}

const wrapper = `
declare "wrapper" {
	argument "in" { }

	test.value "inner" {
		in = argument.in.value
	}

	export "out" {
		value = test.value.inner.out
	}
}
`

// TestModuleCascade: a change passes through a custom component.
func TestModuleCascade(t *testing.T) {
	h := newHost(t)
	stop := h.runs(wrapper + `
		test.value "source" { in = "1" }
		wrapper "w" { in = test.value.source.out }
		test.value "sink" { in = wrapper.w.out }`)
	h.eventually("the inner one runs", h.has("run wrapper.w/test.value.inner"))
	require.Equal(t, "1", h.out("test.value.sink"))

	h.get("test.value.source").options.OnStateChange(specimenExports{Out: "2"})
	h.eventually("the change has come through", func() bool { return h.out("test.value.sink") == "2" })
	h.get("wrapper.w/test.value.inner").options.OnStateChange(specimenExports{Out: "from inside"})
	h.eventually("the change has come out", func() bool { return h.out("test.value.sink") == "from inside" })
	require.Equal(t, 1, count(h.happened(), "build wrapper.w/test.value.inner"))
	stop()
	require.True(t, h.has("end wrapper.w/test.value.inner")())
}

// TestModuleReload: components inside stay if the enclosing declare block changes, and end if it is
// removed.
func TestModuleReload(t *testing.T) {
	h := newHost(t)
	h.runs(wrapper + `wrapper "w" { in = "1" }`)
	h.eventually("the inner one runs", h.has("run wrapper.w/test.value.inner"))

	require.NoError(t, h.load(`
		declare "wrapper" {
			argument "in" { }
			test.value "inner" { in = argument.in.value }
			test.value "added" { in = test.value.inner.out + "!" }
			export "other" { value = test.value.added.out }
		}
		wrapper "w" { in = "2" }
		test.value "sink" { in = wrapper.w.other }`))
	h.eventually("the added one runs", h.has("run wrapper.w/test.value.added"))
	require.Equal(t, "2!", h.out("test.value.sink"))
	require.Equal(t, 1, count(h.happened(), "build wrapper.w/test.value.inner"))
	require.Equal(t, 1, count(h.happened(), "run wrapper.w/test.value.inner"))
	require.Equal(t, 1, count(h.happened(), "update wrapper.w/test.value.inner"))

	require.NoError(t, h.load(``))
	h.eventually("all have ended", func() bool {
		return h.has("end wrapper.w/test.value.inner")() && h.has("end wrapper.w/test.value.added")()
	})
}

// TestModuleReloadFails: a definition that fails to evaluate makes its instances unhealthy, and
// they continue with the previous definition.
func TestModuleReloadFails(t *testing.T) {
	h := newHost(t)
	h.runs(wrapper + `wrapper "w" { in = "1" }`)
	h.eventually("the inner one runs", h.has("run wrapper.w/test.value.inner"))

	err := h.load(`
		declare "wrapper" {
			argument "in" { }
			test.value "inner" { in = argument.in.value }
			nope "x" { }
		}
		wrapper "w" { in = "2" }`)
	require.EqualError(t, err, `c.river:5:4: cannot retrieve the definition of component name "nope"`)
	require.Equal(t, []string{"wrapper.w"}, h.Unhealthy())
	require.Equal(t, "1", h.out("wrapper.w/test.value.inner"))
	require.Equal(t, 0, count(h.happened(), "end wrapper.w/test.value.inner"))
	require.NoError(t, h.load(wrapper+`wrapper "w" { in = "3" }`))
	require.Empty(t, h.Unhealthy())
	require.Equal(t, "3", h.out("wrapper.w/test.value.inner"))
}

// TestImportUpdates: new content changes running instances, also through a declare block and
// through a nested import; broken content has no effect.
func TestImportUpdates(t *testing.T) {
	h := newHost(t)
	leaf := func(value string) string {
		return fmt.Sprintf(`declare "leaf" { export "value" { value = %q } }`, value)
	}
	h.lab.files["leaf"] = leaf("1")
	h.lab.files["lib"] = `
		import.file "inner" { filename = "leaf" }
		declare "comp" {
			inner.leaf "l" { }
			test.value "v" { in = inner.leaf.l.value }
			export "value" { value = test.value.v.out }
		}`
	stop := h.runs(`
		import.file "lib" { filename = "lib" }
		declare "indirect" {
			lib.comp "c" { }
			export "value" { value = lib.comp.c.value }
		}
		declare "more_indirect" {
			indirect "i" { }
			export "value" { value = indirect.i.value }
		}
		lib.comp "direct" { }
		more_indirect "m" { }
		test.value "sink" { list = [lib.comp.direct.value, more_indirect.m.value] }`)
	has := func(direct, indirect string) func() bool {
		return func() bool {
			list := h.get("test.value.sink").current().List
			return len(list) == 2 && list[0] == direct && list[1] == indirect
		}
	}
	h.eventually("the imports run", func() bool {
		return h.has("run import.file.lib")() && h.has("run import.file.lib/import.file.inner")()
	})
	require.True(t, has("1", "1")())
	h.lab.write("leaf", leaf("2"))
	h.eventually("the nested import's change has arrived", has("2", "2"))

	h.lab.write("lib", `declare "comp" {`)
	h.eventually("the import is unhealthy", func() bool { return len(h.Unhealthy()) > 0 })
	require.Equal(t, []string{"import.file.lib"}, h.Unhealthy())
	require.True(t, has("2", "2")())

	h.lab.write("lib", `declare "comp" { export "value" { value = "new" } }`)
	h.eventually("the new content is used", has("new", "new"))
	h.eventually("the nested import has ended", h.has("end import.file.lib/import.file.inner"))
	h.eventually("the component that is gone has ended", h.has("end lib.comp.direct/test.value.v"))
	h.eventually("all is healthy", func() bool { return len(h.Unhealthy()) == 0 })
	stop()
	require.True(t, h.has("end import.file.lib")())
}

// TestReaderHealth: a block is unhealthy while the component that reads its text is, also that of a nested import.
func TestReaderHealth(t *testing.T) {
	for block, id := range map[string]string{
		`import.file "lib" { filename = "lib" }`: "import.file.lib",
		`import.string "out" {
			content = "import.file \"lib\" { filename = \"lib\" }"
		}`: "import.string.out",
		`module.file "lib" { filename = "lib" }`: "module.file.lib",
	} {
		t.Run(id, func(t *testing.T) {
			h := newHost(t)
			h.lab.files["lib"] = ``
			h.runs(block)
			h.eventually("all is healthy", func() bool { return len(h.Unhealthy()) == 0 })
			require.Len(t, h.lab.readers, 1)
			h.lab.readers[0].setHealth(component.HealthTypeUnhealthy, "the server is gone")
			require.Equal(t, []string{id}, h.Unhealthy())
			h.lab.readers[0].setHealth(component.HealthTypeHealthy, "read file")
			require.Empty(t, h.Unhealthy())
		})
	}
}

func TestModuleFileUpdates(t *testing.T) {
	h := newHost(t)
	h.lab.files["m"] = `
		argument "a" { }
		test.value "inner" { in = argument.a.value }
		export "out" { value = test.value.inner.out }`
	stop := h.runs(`
		test.value "source" { in = "1" }
		module.file "m" {
			filename = "m"
			arguments { a = test.value.source.out }
		}
		test.value "sink" { in = module.file.m.exports.out }`)
	h.eventually("the inner one runs", h.has("run module.file.m/test.value.inner"))
	require.Equal(t, "1", h.out("test.value.sink"))
	h.get("test.value.source").options.OnStateChange(specimenExports{Out: "2"})
	h.eventually("the argument has come through", func() bool { return h.out("test.value.sink") == "2" })

	h.lab.write("m", `test.value "inner" { in = `)
	h.eventually("the module is unhealthy", func() bool { return len(h.Unhealthy()) > 0 })
	require.Equal(t, "2", h.out("module.file.m/test.value.inner"))
	h.lab.write("m", `
		argument "a" { }
		export "out" { value = argument.a.value + "!" }`)
	h.eventually("the new content is used", func() bool { return h.out("test.value.sink") == "2!" })
	h.eventually("the inner one has ended", h.has("end module.file.m/test.value.inner"))
	require.Empty(t, h.Unhealthy())
	stop()
}

// TestModulePath: module_path is the folder of the text that contains it.
func TestModulePath(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.lab.files["lib/comp.river"] = `
		import.string "nested" {
			content = "declare \"c\" { export \"path\" { value = module_path } }"
		}
		import.file "beside" { filename = file.path_join(module_path, "sub/other.river") }
		declare "c" {
			nested.c "n" { }
			beside.c "b" { }
			export "path" { value = module_path }
			export "nested" { value = nested.c.n.path }
			export "beside" { value = beside.c.b.path }
		}`
	h.lab.files["lib/sub/other.river"] = `declare "c" { export "path" { value = module_path } }`
	h.lab.files["mod/m.river"] = `export "path" { value = module_path }`
	path := filepath.Join(dir, "c.river")
	require.NoError(t, os.WriteFile(path, []byte(`
		import.file "lib" { filename = "lib/comp.river" }
		lib.c "c" { }
		module.file "m" { filename = "mod/m.river" }
		declare "local" { export "path" { value = module_path } }
		local "l" { }
		test.value "result" {
			list = [module_path, local.l.path, lib.c.c.path, lib.c.c.nested, lib.c.c.beside, module.file.m.exports.path]
		}`), 0o644))
	require.NoError(t, h.LoadPath(path))
	want := []string{dir, dir, "lib", "lib", "lib/sub", "mod"}
	require.Equal(t, want, h.get("test.value.result").current().List)
	require.NoError(t, h.LoadPath(dir))
	require.Equal(t, want, h.get("test.value.result").current().List)
}

func TestModuleFileMissing(t *testing.T) {
	h := newHost(t)
	require.EqualError(t, h.load(`module.file "m" { filename = "nowhere" }`),
		`c.river:1:1: Failed to build component: building component: no file nowhere`)
	require.EqualError(t, h.load(`import.file "m" { filename = "nowhere" }`),
		`c.river:1:1: Failed to evaluate node for config block: creating file component: no file nowhere`)
}

// TestModuleLoadsItself: loading ends quickly with an error.
func TestModuleLoadsItself(t *testing.T) {
	h := newHost(t)
	h.lab.files["m"] = `module.file "again" { filename = "m" }`
	require.ErrorContains(t, h.load(h.lab.files["m"]), "more than 16 levels deep")
	h.lab.files["i"] = `import.file "again" { filename = "i" }`
	require.ErrorContains(t, h.load(h.lab.files["i"]), "more than 16 levels deep")
}

// TestGit: import.git and module.git read from a real repository.
func TestGit(t *testing.T) {
	need.Tools(t, "git")
	dir := t.TempDir()
	commit := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "m.river"), []byte(text), 0o644))
		for _, arguments := range [][]string{{"init", "--quiet"}, {"add", "."},
			{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "x"}} {
			out, err := exec.Command("git", append([]string{"-C", dir}, arguments...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	commit(`declare "leaf" { export "value" { value = "1" } }`)
	h := newHost(t)
	stop := h.runs(fmt.Sprintf(`
		import.git "lib" {
			repository     = %q
			path           = "m.river"
			pull_frequency = "10ms"
		}
		module.git "m" {
			repository = %[1]q
			path       = "m.river"
		}
		lib.leaf "l" { }
		test.value "sink" { in = lib.leaf.l.value }`, dir))
	require.Equal(t, "1", h.out("test.value.sink"))
	commit(`declare "leaf" { export "value" { value = "2" } }`)
	h.eventually("the new commit is used", func() bool { return h.out("test.value.sink") == "2" })
	info, found := h.Component("module.git.m")
	require.True(t, found)
	require.Contains(t, string(info.DebugInfo), `"name":"sha"`)
	stop()
}

// TestGitModulePath: module_path of a module in a repository is a folder with the files of the commit. The files of the
// commit before stay, because components may still use them.
func TestGitModulePath(t *testing.T) {
	need.Tools(t, "git")
	dir := t.TempDir()
	commit := func(data string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "modules"), 0o755))
		for name, text := range map[string]string{
			"modules/m.river":   `declare "leaf" { export "path" { value = module_path } }`,
			"modules/data.text": data,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		for _, arguments := range [][]string{{"init", "--quiet"}, {"add", "."},
			{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "x"}} {
			out, err := exec.Command("git", append([]string{"-C", dir}, arguments...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	commit("first")
	h := newHost(t)
	stop := h.runs(fmt.Sprintf(`
		import.git "lib" {
			repository     = %q
			path           = "modules/m.river"
			pull_frequency = "10ms"
		}
		lib.leaf "l" { }
		test.value "sink" { in = lib.leaf.l.path }`, dir))
	defer stop()
	data := func() string { // of the commit whose module runs
		text, err := os.ReadFile(filepath.Join(h.out("test.value.sink"), "data.text"))
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "first", data())
	before := h.out("test.value.sink")
	commit("second")
	h.eventually("the new commit is used", func() bool { return h.out("test.value.sink") != before })
	require.Equal(t, "second", data())
	require.FileExists(t, filepath.Join(before, "data.text"))
}

func TestModuleInfo(t *testing.T) {
	h := newHost(t)
	h.lab.files["m"] = `
		argument "secret" { }
		test.value "inner" { secret = argument.secret.value }
		export "secret" { value = test.value.inner.secret }`
	stop := h.runs(wrapper + `
		test.value "s" { secret = "s3cret" }
		wrapper "w" { in = "1" }
		module.file "m" {
			filename = "m"
			arguments { secret = test.value.s.secret }
		}`)
	h.eventually("the inner ones run", func() bool {
		return h.has("run wrapper.w/test.value.inner")() && h.has("run module.file.m/test.value.inner")()
	})
	var ids []string
	for _, info := range h.Components() {
		ids = append(ids, info.LocalID)
		details, found := h.Component(info.LocalID)
		require.True(t, found)
		require.NotContains(t, string(details.Arguments)+string(details.Exports), "s3cret")
	}
	require.Equal(t, []string{"test.value.s", "wrapper.w", "module.file.m"}, ids)

	info, found := h.Component("module.file.m")
	require.True(t, found)
	require.Equal(t, []string{"module.file.m"}, info.CreatedModuleIDs)
	require.Equal(t, []string{"test.value.s"}, info.ReferencesTo)
	require.Contains(t, string(info.Exports), `"name":"exports","type":"block"`)
	require.Contains(t, string(info.Arguments), `"name":"filename"`)
	require.Contains(t, string(info.Arguments), `"name":"arguments","type":"block"`)

	inner, found := h.ModuleComponents("wrapper.w")
	require.True(t, found)
	require.Len(t, inner, 1)
	require.Equal(t, "wrapper.w", inner[0].ModuleID)
	require.Equal(t, "test.value.inner", inner[0].LocalID)
	_, found = h.ModuleComponents("nowhere")
	require.False(t, found)
	details, found := h.Component("wrapper.w/test.value.inner")
	require.True(t, found)
	require.Equal(t, "healthy", details.Health.State)

	require.ElementsMatch(t, []string{
		"{component_id=test.value.s} 0", "{component_id=wrapper.w/test.value.inner} 0",
		"{component_id=module.file.m/test.value.inner} 0",
	}, h.metric("specimen_up"))
	require.ElementsMatch(t, []string{
		"{controller_id=,health_type=healthy} 3", "{controller_id=wrapper.w,health_type=healthy} 1",
		"{controller_id=module.file.m,health_type=healthy} 1",
	}, h.metric("agent_component_controller_running_components"))
	stop()
}
