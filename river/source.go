package river

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/parser"
)

// Source is the text of a configuration, one file or several, and the blocks in
// it. It is not changed after Parse.
type Source struct {
	files  map[string][]byte
	blocks []*ast.BlockStmt // of all files, in the order of the files' names
	folder string           // where the files are, "" if they are in none; module_path in expressions
}

// ReadSource reads and parses the file at path, or, if path is a folder, all
// files directly in it that end in .river or .alloy, which count as one
// configuration. Parsing errors come as a *LoadError.
func ReadSource(path string) (*Source, error) {
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
	source, err := Parse(files)
	if err != nil {
		return nil, err
	}
	source.folder = folder
	return source, nil
}

func riverFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		switch filepath.Ext(entry.Name()) {
		case ".river", ".alloy":
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("folder %s holds no .river or .alloy file", folder)
	}
	return names, nil
}

// Parse parses files, given by name, as one configuration. The names appear in
// diagnostics. What is wrong in any of them comes as a *LoadError.
func Parse(files map[string][]byte) (*Source, error) {
	source := &Source{files: make(map[string][]byte, len(files))}
	var diags diag.Diagnostics
	for _, name := range sortedKeys(files) {
		text, err := decodeText(files[name])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		source.files[name] = text
		diags = append(diags, source.parseFile(name, text)...)
	}
	if len(diags) > 0 {
		return nil, &LoadError{Diagnostics: diags, files: source.files}
	}
	return source, nil
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

// addBlocks adds the blocks of body. It refuses anything else.
func (s *Source) addBlocks(body ast.Body) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.BlockStmt:
			s.blocks = append(s.blocks, stmt)
		case *ast.AttributeStmt:
			diags.Add(errorAt(stmt.Name, "unrecognized attribute %s", stmt.Name.Name))
		default:
			diags.Add(errorAt(stmt, "unsupported statement type %T", stmt))
		}
	}
	return diags
}

// sourceOfBody returns the inside of a declare block as a source. What is wrong
// with it comes as a *LoadError.
func sourceOfBody(d definition) (*Source, error) {
	source := &Source{files: d.scope.files, folder: d.scope.folder}
	if diags := source.addBlocks(d.body); len(diags) > 0 {
		return nil, &LoadError{Diagnostics: diags, files: source.files}
	}
	return source, nil
}

// SHA256 returns the checksum of all files, one after the other in the order of
// their names.
func (s *Source) SHA256() [sha256.Size]byte {
	hash := sha256.New()
	for _, name := range sortedKeys(s.files) {
		hash.Write(s.files[name])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

func sortedKeys(files map[string][]byte) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// decodeText returns text as UTF-8 without a byte order mark. UTF-16 is known by
// its mark (Unicode 16.0, section 23.8).
func decodeText(text []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(text, []byte{0xEF, 0xBB, 0xBF}):
		text = text[3:]
	case bytes.HasPrefix(text, []byte{0xFF, 0xFE}):
		text = decodeUTF16(text[2:], binary.LittleEndian)
	case bytes.HasPrefix(text, []byte{0xFE, 0xFF}):
		text = decodeUTF16(text[2:], binary.BigEndian)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	return text, nil
}

func decodeUTF16(text []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

// blockWords returns the words of a block's name and its label, if any. Joined
// by dots they are the block's ID.
func blockWords(block *ast.BlockStmt) []string {
	words := append([]string(nil), block.Name...)
	if block.Label != "" {
		words = append(words, block.Label)
	}
	return words
}

func blockID(block *ast.BlockStmt) string { return strings.Join(blockWords(block), ".") }
