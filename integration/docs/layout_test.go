package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// maxColumns is how many characters a line may have.
const maxColumns = 120

// TestLineLengths: documents, outside of tables, links and generated figures, have
// lines that fit a terminal.
func TestLineLengths(t *testing.T) {
	testkit.Lint(t)
	for _, path := range documentPaths(t) {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		figures := false
		for i, line := range strings.Split(string(text), "\n") {
			figures = figures && line != "<!-- end of figures -->" || line == "<!-- figures"
			if figures || strings.HasPrefix(line, "|") || referenceLink.MatchString(line) {
				continue
			}
			checkColumns(t, path, i+1, line)
		}
	}
}

// TestGoLineLengths: so has code. A directive of go generate is one line.
func TestGoLineLengths(t *testing.T) {
	testkit.Lint(t)
	eachGoFile(t, func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.HasPrefix(line, "//go:generate ") {
				checkColumns(t, path, i+1, line)
			}
		}
	})
}

func checkColumns(t *testing.T, path string, number int, line string) {
	t.Helper()
	if columns := utf8.RuneCountInString(line); columns > maxColumns {
		t.Errorf("%s:%d: %d columns, but at most %d fit", path, number, columns, maxColumns)
	}
}

// TestREADME: the first page stays short.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	lines := strings.Count(string(text), "\n")
	require.GreaterOrEqual(t, lines, 80)
	require.LessOrEqual(t, lines, 120)
}
