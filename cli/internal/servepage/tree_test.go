package servepage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// TestTreeBelow: folded parts are served on request, for the given node.
func TestTreeBelow(t *testing.T) {
	var stacks strings.Builder
	for i := range 300 {
		fmt.Fprintf(&stacks, "main;small;leaf%d 1\nmain;large%d 1000\n", i, i)
	}
	h := New([]string{fileOf(t, "cpu.folded", stacks.String())}, "127.0.0.1:4041")
	get := func(query string) (tree tree.Tree) {
		body, answer := ask(t, h, "/1/tree?"+query)
		require.Equal(t, http.StatusOK, answer.Code, body)
		require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
		require.NoError(t, json.Unmarshal([]byte(body), &tree))
		return tree
	}
	require.Positive(t, get("max=310").Omitted.Nodes)
	small := get("&max=310&root=" + tree.RootPath.Child("main", "").Child("small", "").String())
	require.Zero(t, small.Omitted.Nodes)
	require.EqualValues(t, 300, small.Total*small.Scale)
	require.True(t, slices.Contains(small.Strings, "leaf299"))

	for query, status := range map[string]int{
		"max=0": 400, "max=x": 400, "max=1000000": 400, "root=x": 400, "root=0000000000000000": 404,
	} {
		body, answer := ask(t, h, "/1/tree?"+query)
		require.Equal(t, status, answer.Code, query)
		require.Contains(t, body, `"error":`, query)
	}
}
