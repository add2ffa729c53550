package view

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// Every file of scripts is in flame.js exactly once.
func TestScripts(t *testing.T) {
	files, err := fs.Glob(assets, "page/scripts/*.js")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(file, "page/scripts/"), ".js"))
	}
	require.ElementsMatch(t, names, scripts)
	script, err := Asset("flame.js")
	require.NoError(t, err)
	for _, file := range files {
		part, err := assets.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(script, part), file)
	}
	_, err = Asset("nothing.js")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The contents of a file cannot end its script early, and its policy allows no other scripts and no addresses.
func TestWrite(t *testing.T) {
	tree := &tree.Tree{Strings: []string{"</script><script>alert(1)</script>"}}
	var out bytes.Buffer
	require.NoError(t, Write(&out, About{Title: "<b>"}, tree, nil))
	require.Equal(t, 2, strings.Count(out.String(), "</script>"), "the data's and the page's")
	require.NotContains(t, out.String(), "<b>")
	require.True(t, slices.Contains(strings.Fields(out.String()), "'none';"))
	require.NotContains(t, out.String(), "unsafe")
}

// TestWriteWhole checks that folded nodes are in the file, compressed.
func TestWriteWhole(t *testing.T) {
	var out bytes.Buffer
	whole := &tree.Tree{Strings: []string{"folded"}}
	require.NoError(t, Write(&out, About{}, &tree.Tree{}, whole))
	_, rest, found := strings.Cut(out.String(), `id="flame-whole">`)
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "</script>")
	packed, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	data, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	var got tree.Tree
	require.NoError(t, json.NewDecoder(data).Decode(&got))
	require.Equal(t, whole.Strings, got.Strings)
}
