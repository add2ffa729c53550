package jsonout

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Write(&out, struct {
		Name string `json:"name"`
		N    []int  `json:"n"`
	}{"a", []int{1}}))
	require.Equal(t, "{\n  \"name\": \"a\",\n  \"n\": [\n    1\n  ]\n}\n", out.String())
	require.Error(t, Write(&out, make(chan int)))
}
