package river

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestInvalid loads every testdata/invalid/*.river and compares the user's error message with the
// .error file of the same name. The texts are from Grafana Agent v0.40's runtime.
func TestInvalid(t *testing.T) {
	for _, path := range goldenCases(t, "testdata/invalid/*.river") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			h := newHost(t)
			err := h.load(readFile(t, path))
			require.Error(t, err)
			compareGolden(t, strings.TrimSuffix(path, ".river")+".error", printed(t, err))
			require.False(t, h.Ready(), "a configuration that was refused is in force")
			require.Empty(t, h.Components())
		})
	}
}

// TestValid loads every testdata/valid/*.river and compares the exports of the component
// test.value.result with the .expect file of the same name.
func TestValid(t *testing.T) {
	t.Setenv("HEADWATER_TEST", "from the environment")
	for _, path := range goldenCases(t, "testdata/valid/*.river") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			h := newHost(t)
			err := h.load(readFile(t, path))
			if err != nil {
				t.Fatal(printed(t, err))
			}
			info, found := h.Component("test.value.result")
			require.True(t, found)
			compareGolden(t, strings.TrimSuffix(path, ".river")+".expect", indent(t, info.Arguments)+indent(t, info.Exports))
		})
	}
}

func goldenCases(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths, "no case matches %s", pattern)
	return paths
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	if diff := cmp.Diff(readFile(t, path), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func indent(t *testing.T, body json.RawMessage) string {
	t.Helper()
	var value []struct {
		Name  string
		Value struct{ Value interface{} }
	}
	require.NoError(t, json.Unmarshal(body, &value))
	var lines strings.Builder
	for _, attribute := range value {
		encoded, err := json.Marshal(attribute.Value.Value)
		require.NoError(t, err)
		lines.WriteString(attribute.Name + " = " + string(encoded) + "\n")
	}
	return lines.String()
}
