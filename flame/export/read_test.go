package export

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFormats checks that reading any file and writing it in every format does not panic.
func FuzzFormats(f *testing.F) {
	var data bytes.Buffer
	require.NoError(f, server(f).WriteUncompressed(&data))
	f.Add(data.Bytes())
	data.Reset()
	require.NoError(f, withoutLabels(f).Write(&data))
	f.Add(data.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		for _, format := range Formats() {
			var out bytes.Buffer
			_ = format.Write(&out, p) // an error is fine
		}
		var out bytes.Buffer
		_, _ = Top(&out, p, 20), Tree(&out, p)
	})
}
