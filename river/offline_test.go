package river

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// remarks checks a configuration without a network and returns its findings, one in a line.
func (h *host) remarks(text string) (remarks []string, err error) {
	h.t.Helper()
	h.options.Offline, h.options.Registerer = true, nil
	h.Runtime = New(h.options)
	err = h.load(text)
	for _, f := range h.Findings() {
		remark := f.At.String() + " " + f.Subject
		if f.Text != "" {
			remark += ": " + f.Text
		}
		remarks = append(remarks, remark)
	}
	return remarks, err
}

// A check without a network builds no component that asks another machine, and lists it.
func TestOfflineAsksNobody(t *testing.T) {
	h := newHost(t)
	remarks, err := h.remarks(`test.remote "r" { }
test.finder "f" { in = "x" }
import.git "g" {
	repository = "https://127.0.0.1:1/x.git"
	path       = "m.river"
}
g.lib "a" { }
module.git "m" {
	repository = "https://127.0.0.1:1/x.git"
	path       = "m.river"
}
test.value "b" { in = module.git.m.exports.x }
test.value "c" { in = g.lib.a.x }
test.value "d" { in = test.remote.r.out }
test.value "e" { in = test.finder.f.out }
`)
	require.NoError(t, err)
	require.Equal(t, []string{
		"c.river:1:1 test.remote.r: asks a web server",
		"c.river:2:1 test.finder.f: asks a cluster",
		"c.river:3:1 import.git.g: asks a Git repository",
		"c.river:7:1 g.lib.a: is declared by import.git.g, which was not looked at",
		"c.river:8:1 module.git.m: asks a Git repository",
		"c.river:12:1 test.value.b: depends on module.git.m",
		"c.river:13:1 test.value.c: depends on g.lib.a",
		"c.river:14:1 test.value.d: depends on test.remote.r",
	}, remarks)
	require.Equal(t, []string{"build test.value.e"}, h.happened())
}

// What does not depend on unknown values is checked.
func TestOfflineFindsMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"test.value \"a\" {\n\tin = test.remote.r.out\n\tnumbr = 1\n}":      "c.river:3:2: unrecognized attribute",
		"test.value \"a\" {\n\tin = test.remote.r.out\n\tnumber = \"x\"\n}": "c.river:3:11: \"x\" should be number",
		"test.strict \"a\" { }":                          "missing required attribute \"in\"",
		"test.value \"a\" { in = test.remote.gone.out }": "does not exist",
		"test.remote \"b\" { number = -1 }":              "must not be negative",
		"test.value \"a\" {\n\tforward_to = [test.value.b.receiver]\n\tnumber = -1\n}\n" +
			"test.value \"b\" { in = test.remote.r.out }": "c.river:3:2: number must not be negative",
		"declare \"d\" {\n\targument \"x\" { }\n\ttest.value \"v\" {\n\t\tin = argument.x.value\n\t\tnumbr = 1\n\t}\n}\n" +
			"d \"a\" { x = test.remote.r.out }": "c.river:5:3: unrecognized attribute",
	} {
		_, err := newHost(t).remarks(text + "\ntest.remote \"r\" { }\n")
		require.Error(t, err, text)
		require.Contains(t, printed(t, err), want, text)
	}
}

// Unknown values pass through the arguments and exports of modules.
func TestOfflineModules(t *testing.T) {
	remarks, err := newHost(t).remarks(`test.remote "r" { }
declare "d" {
	argument "x" { }
	argument "y" {
		optional = true
	}
	test.value "v" { in = argument.x.value }
	test.value "w" { in = argument.y.value }
	export "v" { value = test.value.v.out }
	export "w" { value = test.value.w.out }
}
d "a" {
	x = test.remote.r.out
	y = "known"
}
test.value "v" { in = d.a.v }
test.value "w" { in = d.a.w }
`)
	require.NoError(t, err)
	require.Equal(t, []string{
		"c.river:1:1 test.remote.r: asks a web server",
		"c.river:7:2 test.value.v: depends on argument.x",
		"c.river:16:1 test.value.v: depends on d.a",
	}, remarks)
}

// A variable that is not set is named, and its value is unknown: the program that runs the configuration may have it.
func TestOfflineEnvironment(t *testing.T) {
	t.Setenv("HEADWATER_TEST", "5")
	remarks, err := newHost(t).remarks(`test.value "a" { in = env("HEADWATER_TEST") }
test.value "b" {
	number = sys.env("HEADWATER_GONE")
}
declare "unused" {
	test.value "c" { in = "a" + env("HEADWATER_GONE_TOO") }
}
`)
	require.NoError(t, err)
	require.Equal(t, []string{
		"c.river:2:1 test.value.b: depends on the environment variable HEADWATER_GONE",
		"c.river:3:11 HEADWATER_GONE",
		"c.river:6:30 HEADWATER_GONE_TOO",
	}, remarks)
}

// A file that is not on this machine may be on the other.
func TestOfflineFiles(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	remarks, err := newHost(t).remarks(`test.absent "f" { in = "` + gone + `" }
test.value "a" { in = test.absent.f.out }
`)
	require.NoError(t, err)
	require.Equal(t, []string{
		"c.river:1:1 test.absent.f: building component: open " + gone + ": no such file or directory",
		"c.river:2:1 test.value.a: depends on test.absent.f",
	}, remarks)
}

// Arguments without effect are found with their place.
func TestWarnings(t *testing.T) {
	h := newHost(t)
	const text = "test.warner \"w\" {\n\tin = \"x\"\n\tnumber = 7\n}\n"
	require.NoError(t, h.load(text))
	require.Equal(t, []Finding{{FindingWarning, h.Findings()[0].At, "test.warner.w",
		"number has no effect in Headwater: for a test"}},
		h.Findings())
	require.Equal(t, 3, h.Findings()[0].At.Line)
	info, _ := h.Component("test.warner.w")
	require.Equal(t, []string{"number has no effect in Headwater: for a test"}, info.Warnings)
	h.runs(text)
	h.eventually("the health says so", func() bool {
		_, message := h.health("test.warner.w")
		return strings.Contains(message, "number has no effect in Headwater")
	})
	require.NoError(t, h.load(""))
	require.Empty(t, h.Findings())
}

var _ component.Warner = (*warnedArgs)(nil)
