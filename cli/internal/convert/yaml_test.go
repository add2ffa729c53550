package convert

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/river"
)

// FuzzYAML: whatever a file has, it becomes valid River or an error.
func FuzzYAML(f *testing.F) {
	f.Add([]byte("receivers:\n  profiling:\n    tracers: [python]\n    samples_per_second: 7\n"))
	f.Add([]byte("a: &a {receivers: *a}\nreceivers: {profiling: {verbose_mode: true}, otlp: }"))
	f.Fuzz(func(t *testing.T, text []byte) {
		made, err := YAML("c.yaml", "http://p:4040", text)
		if err != nil {
			return
		}
		_, err = river.Format("made", []byte(made.River))
		require.NoError(t, err)
	})
}
