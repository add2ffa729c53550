package mcpserver

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestSecurityTable: the row of SECURITY.md has the bounds of the code.
func TestSecurityTable(t *testing.T) {
	text, err := os.ReadFile("../../../SECURITY.md")
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("| Calls of `headwater mcp` | its client | %d MiB a message; "+
		"%d s and %d Hz a recording; %d MiB of a file or URL, %d MiB decompressed; %d MiB of %d recordings kept; "+
		"%d KiB an answer; one call at a time |",
		MaxMessage>>20, maxSeconds, maxRate, maxContent>>20, maxInflated>>20, maxBytes>>20, maxKept, maxAnswer>>10))
}

func TestAllowed(t *testing.T) {
	s := New(Options{URLs: []string{"http://127.0.0.1:12345/page", "https://host/"}})
	for _, name := range []string{
		"http://127.0.0.1:12345/page", "http://127.0.0.1:12345/page/download?range=5m", "https://host/x/y",
	} {
		require.NoError(t, s.allowed(name))
	}
	for _, name := range []string{
		"http://127.0.0.1:12345/pages", "http://127.0.0.1:12345/", "http://127.0.0.1:1/page", "http://host/x",
		"https://host.example/x", "https://user@host/x", "http://127.0.0.1:12345/page/../x", "https://host/%2e%2e/x\x00",
		"http://169.254.169.254/", "https:///x",
	} {
		require.Error(t, s.allowed(name), name)
	}
}

func TestKept(t *testing.T) {
	var r recordings
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	for i := range maxKept + 2 {
		name, err := r.keepProfile(p)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("recording-", i+1), name)
	}
	_, err := r.profileNamed("recording-2")
	require.ErrorContains(t, err, `there is no recording "recording-2"; recordings are: recording-3,`)
	got, err := r.profileNamed("recording-3")
	require.NoError(t, err)
	require.Equal(t, "samples", got.SampleType[0].Type)
	got, err = r.profileNamed("file.pb.gz")
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestWhole(t *testing.T) {
	n, err := whole("seconds", 0, 5, 1, 30)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	for _, wrong := range []float64{-1, 31, 1.5, math.Inf(1), math.NaN(), 1e300} {
		_, err := whole("seconds", wrong, 5, 1, 30)
		require.ErrorContains(t, err, "seconds must be a whole number from 1 to 30")
	}
}

func TestCut(t *testing.T) {
	require.Equal(t, "a\n", cutText("a\n"))
	got := cutText(strings.Repeat("äöü\n", maxAnswer))
	require.LessOrEqual(t, len(got), maxAnswer+100)
	require.True(t, strings.HasSuffix(got, "äöü\n(cut: the answer is too long)\n"))
}

func TestInflate(t *testing.T) {
	_, err := inflate([]byte{0x1f, 0x8b, 0})
	require.Error(t, err)
	plain, err := inflate([]byte("main 1\n"))
	require.NoError(t, err)
	require.Equal(t, "main 1\n", string(plain))
}
