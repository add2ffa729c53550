// Package flameview has the flame graph that draws a trie.Tree: the scripts and styles that
// pages serve, and files that hold all of it.
package flameview

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/template"

	"github.com/headwater/headwater/ebpf/trie"
)

//go:embed page
var assets embed.FS

// scripts are the files that make flame.js, in their order: a file uses those before it, and classes of any.
var scripts = []string{
	"text", "profile", "tree", "path", "unfold", "derive", "colors", "plain", "comparison", "chart", "state", "rows",
	"exact", "table", "treegrid", "menu", "lines", "tip", "input", "controls", "view", "start",
}

// script returns flame.js: one function, so that it adds no names to a page.
var script = sync.OnceValues(func() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("'use strict';\n\n(function () {\n")
	for _, name := range scripts {
		part, err := assets.ReadFile("page/scripts/" + name + ".js")
		if err != nil {
			return nil, err
		}
		out.Write(part)
		out.WriteByte('\n')
	}
	out.WriteString("})();\n")
	return out.Bytes(), nil
})

// Asset returns a file of the page: flame.js, flame.css, or style.css, which has what all pages
// share. An error says that there is no such file.
func Asset(name string) ([]byte, error) {
	if name == "flame.js" {
		return script()
	}
	return assets.ReadFile("page/" + name)
}

// About says what a file shows.
type About struct {
	Title string   // what was profiled
	Notes []string // short remarks in a line below: when, how long, how many samples
}

// file is the template of a file. It does not escape on its own: scripts and styles are there
// as they are, so that their hashes fit.
var file = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(assets, "page/file.html"))
})

// Write writes a page that needs nothing else: it works from a disk, and its content security
// policy allows its own script and styles alone. whole, if it is not nil, is the same tree with
// what tree has folded. It is written compressed, and read when somebody opens a folded node.
func Write(w io.Writer, about About, tree, whole *trie.Tree) error {
	var data bytes.Buffer
	if err := json.NewEncoder(&data).Encode(tree); err != nil { // which escapes < and >
		return fmt.Errorf("encode flame graph: %w", err)
	}
	script, err := Asset("flame.js")
	if err != nil {
		return err
	}
	styles, err := allStyles()
	if err != nil {
		return err
	}
	packed, err := pack(whole)
	if err != nil {
		return err
	}
	return file().Execute(w, map[string]any{
		"Whole": packed,
		"About": about, "Data": data.String(), "Script": string(script), "Styles": string(styles),
		"ScriptHash": hash(script), "StylesHash": hash(styles),
	})
}

// pack returns a tree as text that fits into a page: compressed JSON in base64; "" for nil.
func pack(tree *trie.Tree) (string, error) {
	if tree == nil {
		return "", nil
	}
	var out bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &out)
	data := gzip.NewWriter(text)
	if err := json.NewEncoder(data).Encode(tree); err != nil {
		return "", fmt.Errorf("encode flame graph: %w", err)
	}
	if err := data.Close(); err != nil {
		return "", fmt.Errorf("compress flame graph: %w", err)
	}
	if err := text.Close(); err != nil {
		return "", fmt.Errorf("encode flame graph: %w", err)
	}
	return out.String(), nil
}

// allStyles are the styles of a file.
func allStyles() ([]byte, error) {
	shared, err := Asset("style.css")
	if err != nil {
		return nil, err
	}
	own, err := Asset("flame.css")
	return append(shared, own...), err
}

// hash names a script or styles in a content security policy.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
