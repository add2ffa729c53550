package river

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	known := []string{"forward_to", "targets", "sample_rate", "in", "pyroscope.relabel"}
	for name, want := range map[string]string{
		"forwad_to": "forward_to", "forward_ot": "forward_to", "forwardto": "forward_to", "target": "targets",
		"sample_rato": "sample_rate", "samplerate": "sample_rate", "im": "in",
		"pyroscope.relable": "pyroscope.relabel", "pyroscop.relabel": "pyroscope.relabel", "pyroscope.telepathy": "",
		"": "", "x": "", "labels": "", "forward": "", "collect_interval": "",
	} {
		require.Equal(t, want, nearest(name, slices.Values(known)), name)
	}
}

// TestEditDistance has distances counted by hand.
func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xbc", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		require.Equal(t, c.want, editDistance(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.want, editDistance(c.b, c.a), "%s %s", c.b, c.a)
	}
}
