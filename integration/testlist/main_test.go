package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestList compares the committed list with the source: a test that is new, gone, renamed or
// moved between make test and make nightly changes the list as well.
func TestList(t *testing.T) {
	tests, err := source("../..")
	require.NoError(t, err)
	committed, err := os.ReadFile("tests.txt")
	require.NoError(t, err)
	if diff := cmp.Diff(strings.Split(string(committed), "\n"), strings.Split(format(tests), "\n")); diff != "" {
		t.Errorf("tests.txt differs from the source; go run ./integration/testlist -write writes it (-committed +source)\n%s",
			diff)
	}
}

// TestSchedules reads each way to leave something to make nightly.
func TestSchedules(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(`package a
func TestMain(m *testing.M) {}
func TestPlain(t *testing.T) { testkit.Eventually(t, "it", nil) }
func TestLate(t *testing.T) { testkit.Nightly(t, "long") }
func TestPart(t *testing.T) { t.Run("x", func(t *testing.T) { testkit.Nightly(t, "long") }) }
func TestMore(t *testing.T) { n := 1; if testkit.IsNightly() { n = 9 }; _ = n }
func Testing() {}
func FuzzIt(f *testing.F) {}
func Example() {
	// Output: x
}
func ExampleSilent() {}
`), 0o600))
	tests, err := source(dir)
	require.NoError(t, err)
	require.Equal(t, []test{{".", "Example", "test"}, {".", "FuzzIt", "test"}, {".", "TestLate", "nightly"},
		{".", "TestMore", "both"}, {".", "TestPart", "both"}, {".", "TestPlain", "test"}}, tests)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "b_test.go"), []byte(`package a
func helper(t *testing.T) { testkit.Nightly(t, "hidden") }
`), 0o600))
	_, err = source(dir)
	require.ErrorContains(t, err, "b_test.go: helper uses testkit.Nightly: only a function Test may")
}

// TestCompareEvents misses a test without a result.
func TestCompareEvents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(file, []byte(`build output
{"Action":"run","Package":"github.com/headwater/headwater/a","Test":"TestX"}
{"Action":"pass","Package":"github.com/headwater/headwater/a","Test":"TestX"}
{"Action":"pass","Package":"github.com/headwater/headwater/a"}
`), 0o600))
	tests := []test{{"a", "TestX", everyChange}, {"a", "TestNight", nightly}}
	require.NoError(t, compareEvents(tests, "test", []string{file}))
	require.ErrorContains(t, compareEvents(tests, "nightly", []string{file}), "has not run 1 tests:\n\ta TestNight")
}
