package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// document is a Markdown file.
type document struct {
	path     string // in the repository
	lines    []line
	fences   []fence
	headings []heading
}

// line is a line outside of code.
type line struct {
	number  int
	text    string
	section []string // the headings above it: of level 1, 2, ...
}

// fence is a piece of code between two lines of three backquotes.
type fence struct {
	line     int
	language string
	text     string
}

// heading is a title, and the anchor by which links reach it.
type heading struct{ text, anchor string }

// table is a table of a document.
type table struct {
	line    int
	section []string
	header  []string
	rows    [][]string
}

// documentPaths returns the Markdown files that people read.
func documentPaths(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	for _, folder := range []string{"docs", "integration/agent"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder),
			func(path string, _ fs.DirEntry, err error) error {
				if filepath.Ext(path) == ".md" {
					paths = append(paths, path)
				}
				return err
			}))
	}
	for i, path := range paths {
		paths[i], err = filepath.Rel(root, path)
		require.NoError(t, err)
	}
	require.Greater(t, len(paths), 40)
	return paths
}

// documents reads all documents.
func documents(t testing.TB) []*document {
	t.Helper()
	var all []*document
	for _, path := range documentPaths(t) {
		all = append(all, readDocument(t, path))
	}
	return all
}

func readDocument(t testing.TB, path string) *document {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return parseDocument(path, string(text))
}

var (
	fenceStart = regexp.MustCompile("^\\s*```(\\w*)")
	headingOf  = regexp.MustCompile(`^(#+) (.+)$`)
)

func parseDocument(path, text string) *document {
	d := &document{path: path}
	var section []string
	var open *fence
	for i, text := range strings.Split(text, "\n") {
		start := fenceStart.FindStringSubmatch(text)
		switch {
		case open != nil && start != nil:
			d.fences = append(d.fences, *open)
			open = nil
			continue
		case open != nil:
			open.text += text + "\n"
			continue
		case start != nil:
			open = &fence{line: i + 2, language: start[1]}
			continue
		}
		if h := headingOf.FindStringSubmatch(text); h != nil {
			level := min(len(h[1]), len(section)+1)
			section = append(append([]string{}, section[:level-1]...), h[2])
			d.headings = append(d.headings, heading{h[2], anchorOf(h[2])})
		}
		d.lines = append(d.lines, line{i + 1, text, section})
	}
	return d
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	heading = strings.ToLower(heading)
	heading = regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

// tables returns the tables of a document.
func (d *document) tables() []table {
	var tables []table
	var current *table
	for _, l := range d.lines {
		if !strings.HasPrefix(l.text, "|") {
			current = nil
			continue
		}
		cells := cellsOf(l.text)
		switch {
		case current == nil:
			tables = append(tables, table{line: l.number, section: l.section, header: cells})
			current = &tables[len(tables)-1]
		case strings.Trim(cells[0], ":-") != "" || cells[0] == "":
			current.rows = append(current.rows, cells)
		}
	}
	return tables
}

// cellsOf splits a row of a table, without the bars that are escaped.
func cellsOf(row string) []string {
	row = strings.ReplaceAll(row, `\|`, "\x00")
	cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|"))
	}
	return cells
}

// TestParseDocument: what the other tests rely on.
func TestParseDocument(t *testing.T) {
	d := parseDocument("x.md", "# A title\n\n## `b.c` and *d*\n\n"+
		"| a | b |\n|---|---|\n| x \\| y | |\n\n```sh\n# no heading\n```\n")
	require.Equal(t, []heading{{"A title", "a-title"}, {"`b.c` and *d*", "bc-and-d"}}, d.headings)
	require.Equal(t, []fence{{10, "sh", "# no heading\n"}}, d.fences)
	require.Equal(t, []table{{
		line: 5, section: []string{"A title", "`b.c` and *d*"}, header: []string{"a", "b"}, rows: [][]string{{"x | y", ""}},
	}}, d.tables())
}
