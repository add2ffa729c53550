package river

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSendsTo: a block sends data to the components whose receivers it refers to, also through a
// module, and gets data from all other components that it refers to.
func TestSendsTo(t *testing.T) {
	h := newHost(t)
	h.lab.files["m"] = `
		test.value "inner" { }
		export "receiver" { value = test.value.inner.receiver }
		export "text" { value = test.value.inner.out }`
	require.NoError(t, h.load(`
		module.file "m" { filename = "m" }
		test.sink "c" {
			in         = test.value.a.out
			forward_to = [module.file.m.exports.receiver]
		}
		test.sink "d" { in = module.file.m.exports.text }
		declare "outlet" {
			test.value "inner" { }
			export "receiver" { value = test.value.inner.receiver }
			export "secret" { value = test.value.inner.secret }
			export "text" { value = test.value.inner.out }
		}
		outlet "o" { }
		test.value "a" { in = outlet.o.text }
		test.value "b" {
			in         = test.value.a.out
			secret     = test.value.a.secret
			forward_to = [outlet.o.receiver, test.value.sent.receiver, test.value.sent.receiver]
		}
		test.value "sent" { secret = outlet.o.secret }
		test.sink "both" {
			in         = test.value.a.out + test.value.sent.out + constants.hostname
			forward_to = [test.value.sent.receiver]
		}`))
	sends, refers := map[string][]string{}, map[string][]string{}
	for _, info := range h.Components() {
		sends[info.LocalID], refers[info.LocalID] = info.SendsTo, info.ReferencesTo
	}
	require.Equal(t, map[string][]string{
		"outlet.o": nil, "test.value.a": nil, "test.value.sent": nil,
		"module.file.m": nil, "test.sink.d": nil,
		"test.value.b":   {"outlet.o", "test.value.sent"},
		"test.sink.c":    {"module.file.m"},
		"test.sink.both": {"test.value.sent"},
	}, sends)
	require.ElementsMatch(t, []string{"test.value.a", "outlet.o", "test.value.sent"}, refers["test.value.b"])
	inner, _ := h.ModuleComponents("outlet.o")
	require.Empty(t, inner[0].SendsTo)
}

// TestImports: imports, including nested ones, are listed with their declared components, their
// users and their health.
func TestImports(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	s.lab.files["leaf"] = `declare "leaf" { }`
	s.lab.files["lib"] = `
		import.file "deep" { filename = "leaf" }
		declare "two" { deep.leaf "x" { } }
		declare "one" {
			import.file "own" { filename = "leaf" }
			own.leaf "y" { }
		}`
	require.NoError(t, s.load(`
		import.file "lib" { filename = "lib" }
		lib.one "first" { }
		lib.two "second" { }
		test.value "a" { }`))
	code, body := s.get("/api/v0/web/imports")
	require.Equal(t, 200, code)
	var infos []ImportInfo
	require.NoError(t, json.Unmarshal([]byte(body), &infos))
	require.Len(t, infos, 2)
	require.Equal(t, "import.file", infos[0].Name)
	require.Equal(t, "import.file.lib", infos[0].LocalID)
	require.Equal(t, "lib", infos[0].Label)
	require.Equal(t, []string{"lib.one", "lib.two"}, infos[0].Offers)
	require.Equal(t, []string{"lib.one.first", "lib.two.second"}, infos[0].UsedBy)
	require.Equal(t, "import.file.lib/import.file.deep", infos[1].LocalID)
	require.Equal(t, []string{"deep.leaf"}, infos[1].Offers)
	require.Empty(t, infos[1].UsedBy)

	for _, info := range s.Components() {
		want := []string{"import.file.lib"}
		if info.LocalID == "test.value.a" {
			want = nil
		}
		require.Equal(t, want, info.DeclaredIn, info.LocalID)
	}
	code, body = s.get("/api/v0/web/modules/lib.one.first/imports")
	require.Equal(t, 200, code)
	require.NoError(t, json.Unmarshal([]byte(body), &infos))
	require.Len(t, infos, 1)
	require.Equal(t, "import.file.own", infos[0].LocalID)
	require.Equal(t, "lib.one.first", infos[0].ModuleID)
	for _, path := range []string{"nowhere/imports", "imports", "lib.one.first/else"} {
		code, _ = s.get("/api/v0/web/modules/" + path)
		require.Equal(t, 404, code, path)
	}
}
