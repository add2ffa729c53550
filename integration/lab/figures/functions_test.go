package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.1234: "0.12", 1.239: "1.24", 12.34: "12.3", 99.96: "100.0",
		123.4: "123", 4567.8: "4568", -12.34: "-12.3"} {
		require.Equal(t, want, three(v))
	}
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000",
		-100: "-100"} {
		require.Equal(t, want, count(v))
	}
	m, err := median([]any{4.0, 1.0, 2.0, 8.0})
	require.NoError(t, err)
	require.Equal(t, 3.0, m)
	_, err = median([]any{})
	require.Error(t, err)
	_, err = median([]any{"x"})
	require.ErrorContains(t, err, "x is no number")
}

func TestLists(t *testing.T) {
	a, b, c := map[string]any{"key": "bpf 1"}, map[string]any{"key": "cpu"}, map[string]any{"key": "bpf 2"}
	found, err := among([]any{a, b, c}, "key", "bpf")
	require.NoError(t, err)
	require.Equal(t, []any{a, c}, found)
	_, err = among([]any{a, b, c}, "key", "cpu", "rss")
	require.ErrorContains(t, err, `no key begins with "rss"`)

	ordered, err := sorted(map[string]any{"x/16KiB": a, "x/4KiB": b})
	require.NoError(t, err)
	require.Equal(t, []map[string]any{{"key": "cpu", "name": "x/4KiB"}, {"key": "bpf 1", "name": "x/16KiB"}}, ordered)
	_, err = sorted(map[string]any{"x": 1.0})
	require.ErrorContains(t, err, "x is no object")

	require.Equal(t, " (0.50 to 2.00)", spread([]any{[]any{1.0, 3.0, 8.0}, []any{2.0, 3.0, 4.0}}))
	require.Empty(t, spread([]any{[]any{1.0}, []any{2.0}}))
	require.Empty(t, spread([]any{[]any{1.0, 2.0}}))

	text, err := printInterval(map[string]any{"least": 0.5, "most": 1.25})
	require.NoError(t, err)
	require.Equal(t, "0.50 to 1.25", text)
	text, err = printInterval(nil)
	require.NoError(t, err)
	require.Equal(t, "too few rounds", text)
	_, err = printInterval(map[string]any{"least": 0.5})
	require.Error(t, err)
}

// TestShellWords: a shell reads the words again.
func TestShellWords(t *testing.T) {
	words := []string{"printf", "%s\n", "-run", "^$", "a|b", "it's", "", "*"}
	out, err := exec.Command("sh", "-c", shellWords(words)).Output()
	require.NoError(t, err)
	require.Equal(t, "-run\n^$\na|b\nit's\n\n*\n", string(out))
	require.Equal(t, "go test ./ebpf", shellWords([]string{"go", "test", "./ebpf"}))
}

// TestParseBenchmarks: what `go test -bench . -benchmem` of Go 1.26 printed.
func TestParseBenchmarks(t *testing.T) {
	const text = `goos: linux
goarch: amd64
pkg: github.com/headwater/headwater/ebpf/unwind
cpu: AMD EPYC
BenchmarkPageSize/libc/4KiB-2         	   36063	     32046 ns/op	       329.0 rows-most	         8.097 bytes/row
BenchmarkPageSize/libc/4KiB-2         	   36063	     31046 ns/op	       329.0 rows-most	         8.097 bytes/row
BenchmarkLoad/libLLVM-14.so.1-2  1	 5 ns/op
BenchmarkBroken
PASS
ok  	github.com/headwater/headwater/ebpf/unwind	12.3s
`
	require.Equal(t, map[string]map[string][]float64{
		"PageSize/libc/4KiB":   {"ns/op": {32046, 31046}, "rows-most": {329, 329}, "bytes/row": {8.097, 8.097}},
		"Load/libLLVM-14.so.1": {"ns/op": {5}},
	}, parseBenchmarks(text))
}
