// Package source reads the text of configurations. It reads files, and for import.* and module.*
// blocks it uses components that watch for newer text.
package source

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/parser"

	"github.com/headwater/headwater/component"
)

// Source is the text of a configuration, in one or more files, and its blocks.
type Source struct {
	Files  map[string][]byte
	Blocks []*ast.BlockStmt // of all files, in the order of the files' names
	Folder string           // folder of the files, "" if there is none; module_path in expressions
}

// Read reads and parses the file at path. If path is a folder, it reads all files directly in it
// that end in .river or .alloy as one configuration. Parse errors are returned as a *LoadError.
func Read(path string) (*Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names, folder := []string{path}, filepath.Dir(path)
	if info.IsDir() {
		folder = path
		if names, err = riverFiles(path); err != nil {
			return nil, err
		}
	}
	files := make(map[string][]byte, len(names))
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	s, err := Parse(files)
	if err != nil {
		return nil, err
	}
	s.Folder = folder
	return s, nil
}

func riverFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && component.IsConfigFile(entry.Name()) {
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("folder %s holds no .river or .alloy file", folder)
	}
	return names, nil
}

// Parse parses files, keyed by name, as one configuration. The names appear in diagnostics. Parse
// errors of all files are returned as one *LoadError.
func Parse(files map[string][]byte) (*Source, error) {
	s := &Source{Files: make(map[string][]byte, len(files))}
	var diags diag.Diagnostics
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := decodeText(files[name])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		s.Files[name] = text
		diags = append(diags, s.parseFile(name, text)...)
	}
	if len(diags) > 0 {
		return nil, &LoadError{Diagnostics: diags, Files: s.Files}
	}
	return s, nil
}

func (s *Source) parseFile(name string, text []byte) diag.Diagnostics {
	file, err := parser.ParseFile(name, text)
	if err != nil {
		var diags diag.Diagnostics
		if errors.As(err, &diags) {
			return diags
		}
		return diag.Diagnostics{{Severity: diag.SeverityLevelError, Message: err.Error()}}
	}
	return s.addBlocks(file.Body)
}

// addBlocks adds the blocks of body. It refuses other statements.
func (s *Source) addBlocks(body ast.Body) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.BlockStmt:
			s.Blocks = append(s.Blocks, stmt)
		case *ast.AttributeStmt:
			diags.Add(ErrorAt(stmt.Name, "unrecognized attribute %s", stmt.Name.Name))
		default:
			diags.Add(ErrorAt(stmt, "unsupported statement type %T", stmt))
		}
	}
	return diags
}

// OfBody returns the body of a declare block as a source. The block is in files, which are in
// folder. Errors in the body are returned as a *LoadError.
func OfBody(body ast.Body, files map[string][]byte, folder string) (*Source, error) {
	s := &Source{Files: files, Folder: folder}
	if diags := s.addBlocks(body); len(diags) > 0 {
		return nil, &LoadError{Diagnostics: diags, Files: files}
	}
	return s, nil
}

// SHA256 returns the checksum of all files, concatenated in the order of their names.
func (s *Source) SHA256() [sha256.Size]byte {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		hash.Write(s.Files[name])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// BlockID returns the words of a block's name and its label, if any, joined by dots.
func BlockID(block *ast.BlockStmt) string {
	words := block.Name
	if block.Label != "" {
		words = append(slices.Clone(words), block.Label)
	}
	return strings.Join(words, ".")
}
