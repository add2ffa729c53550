// Package view has the flame graph that draws a tree.Tree: the scripts and styles that pages serve, and
// self-contained files.
package view

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

	"github.com/headwater/headwater/flame/tree"
)

//go:embed page
var assets embed.FS

// scripts are the parts of flame.js, in order: a part may use earlier parts, and the classes of all parts.
var scripts = []string{
	"text", "profile", "tree", "path", "unfold", "derive", "colors", "plain", "comparison", "chart", "state", "rows",
	"exact", "table", "treegrid", "menu", "lines", "tip", "input", "controls", "view", "start",
}

// script returns flame.js. It is one function, so that it adds no names to a page.
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

// Asset returns a file of the page: flame.js, flame.css, or style.css, which all pages share. It returns an error if
// there is no such file.
func Asset(name string) ([]byte, error) {
	if name == "flame.js" {
		return script()
	}
	return assets.ReadFile("page/" + name)
}

// About describes the contents of a file.
type About struct {
	Title string   // title, such as the name of the profiled process
	Notes []string // short remarks for the line below: time, duration, number of samples
}

// file returns the template of a file. It is a text template without escaping, as scripts and styles must be unchanged
// for their hashes.
var file = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(assets, "page/file.html"))
})

// Write writes a self-contained page: it works from a disk, and its content security policy allows only its own script
// and styles. whole, if not nil, is the same tree with the nodes that tree has folded. It is stored compressed, and
// read when a user opens a folded node.
func Write(w io.Writer, about About, tree, whole *tree.Tree) error {
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
	packed, err := packTree(whole)
	if err != nil {
		return err
	}
	return file().Execute(w, map[string]any{
		"Whole": packed,
		"About": about, "Data": data.String(), "Script": string(script), "Styles": string(styles),
		"ScriptHash": hashText(script), "StylesHash": hashText(styles),
	})
}

// packTree returns a tree as text for a page: compressed JSON in base64, or "" for nil.
func packTree(tree *tree.Tree) (string, error) {
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

// allStyles returns the styles of a file.
func allStyles() ([]byte, error) {
	shared, err := Asset("style.css")
	if err != nil {
		return nil, err
	}
	own, err := Asset("flame.css")
	return append(shared, own...), err
}

// hashText returns the hash of a script or styles for a content security policy.
func hashText(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
