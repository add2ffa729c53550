package flamegraph

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
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
	answer, _ := get(t, server.URL+prefix+"/pprof")
	for _, view := range []string{"flamegraph", "top", "peek"} {
		address, err := answer.Request.URL.Parse(view)
		require.NoError(t, err)
		_, body := get(t, address.String())
		for _, name := range []string{"std::vector::push_back", "foo::example_function", "_start"} {
			requireText(t, body, name, view)
		}
		if strings.Contains(body, mangled) {
			t.Errorf("%s has %s", view, mangled)
		}
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
