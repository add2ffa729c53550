package outfile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, struct {
		Name string `json:"name"`
		N    []int  `json:"n"`
	}{"a", []int{1}}))
	require.Equal(t, "{\n  \"name\": \"a\",\n  \"n\": [\n    1\n  ]\n}\n", out.String())
	require.Error(t, WriteJSON(&out, make(chan int)))
}
