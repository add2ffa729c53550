package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/demangle"
)

// TestDemangledNames: views have names as people write them, files those that are pushed.
func TestDemangledNames(t *testing.T) {
	const mangled = "_ZNSt6vectorIiSaIiEE9push_backERKi"
	now := time.Now()
	page := New(Options{Name: "pyroscope.ebpf.x", Status: testStatus})
	page.Add(now.Add(-time.Second), now, []Profile{{Data: testProfile(t, now, testStack{
		comm: "server", value: 1, frames: []string{"_start", mangled, "_RNvCskwGfYPst2Cb_3foo16example_function"},
	})}})
	server := serve(t, page)
	_, folded := get(t, server.URL+prefix+"/profile?format=folded")
	for _, name := range []string{"std::vector::push_back", "foo::example_function", "_start"} {
		requireText(t, folded, name, "folded stacks")
	}
	require.NotContains(t, folded, mangled)
	_, tree := get(t, server.URL+prefix+"/api/tree")
	for _, name := range []string{"std::vector<int, std::allocator<int> >::push_back", "foo::example_function", "_start"} {
		text, err := json.Marshal(name)
		require.NoError(t, err)
		requireText(t, tree, string(text), "api/tree")
	}
	file, err := http.Get(server.URL + prefix + "/download")
	require.NoError(t, err)
	defer file.Body.Close()
	p, err := profile.Parse(file.Body)
	require.NoError(t, err)
	if !slices.ContainsFunc(p.Function, func(f *profile.Function) bool { return f.Name == mangled }) {
		t.Errorf("the file has no function %s", mangled)
	}
}

// A name that template arguments make very long is shown without them.
func TestLongNames(t *testing.T) {
	mangled := "_Z1fI" + strings.Repeat("St6vectorI", 200) + "i" + strings.Repeat("E", 200) + "Evv"
	require.Greater(t, len(demangle.Templates.Apply(mangled)), maxShownName)
	require.Equal(t, "f", flameName(mangled))
}
