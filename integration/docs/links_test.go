package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	inlineLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	referenceLink = regexp.MustCompile(`^\[[^\]]+\]: (\S+)`)
	inlineCode    = regexp.MustCompile("`[^`]*`")
)

// TestLinks: each link to a file of the repository, and to a heading, resolves.
func TestLinks(t *testing.T) {
	links := 0
	for _, d := range documents(t) {
		for _, l := range d.lines {
			text := inlineCode.ReplaceAllString(l.text, "")
			found := slices.Concat(inlineLink.FindAllStringSubmatch(text, -1), referenceLink.FindAllStringSubmatch(text, -1))
			for _, link := range found {
				links++
				if problem := checkLink(t, d.path, link[1]); problem != "" {
					t.Errorf("%s:%d: %s: %s", d.path, l.number, link[1], problem)
				}
			}
		}
	}
	require.Greater(t, links, 100)
}

// checkLink returns the error in a link of a document, or "".
func checkLink(t testing.TB, from, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	path, anchor, _ := strings.Cut(link, "#")
	target := from
	if path != "" {
		target = filepath.Join(filepath.Dir(from), path)
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	isAnchor := func(h heading) bool { return h.anchor == anchor }
	if filepath.Ext(target) != ".md" || !slices.ContainsFunc(readDocument(t, target).headings, isAnchor) {
		return "there is no such heading"
	}
	return ""
}

// repositoryPath matches a path in the repository in backquotes: it starts with one of the repository's folders.
var repositoryPath = regexp.MustCompile("`((?:bpf|ebpf|component|river|cli|integration|docs)/[A-Za-z0-9_./*-]*)`")

// placeholders are words in paths that stand for any name.
var placeholders = strings.NewReplacer("GROUP", "*", "NAME", "*", "LANGUAGE", "*")

// TestPaths: each path that a document names exists.
func TestPaths(t *testing.T) {
	paths := 0
	for _, d := range documents(t) {
		if d.path == "CHANGELOG.md" {
			continue // it speaks of the past
		}
		for _, l := range d.lines {
			for _, found := range repositoryPath.FindAllStringSubmatch(l.text, -1) {
				paths++
				matches, err := filepath.Glob(filepath.Join(root, placeholders.Replace(found[1])))
				require.NoError(t, err)
				if len(matches) == 0 {
					t.Errorf("%s:%d: there is no %s", d.path, l.number, found[1])
				}
			}
		}
	}
	require.Greater(t, paths, 50)
}

// TestOverview: the overview names each package directly in ebpf/.
func TestOverview(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture/overview.md"))
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(root, "ebpf/*/*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, path := range folders {
		if name := "`" + filepath.Base(filepath.Dir(path)) + "`"; !strings.Contains(string(text), name) {
			t.Errorf("the overview does not name %s, the folder of %s", name, path)
		}
	}
}

// testName is the name of a test in backquotes.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")

// TestTestNames: each test that a document names exists.
func TestTestNames(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, "integration/testlist/tests.txt"))
	require.NoError(t, err)
	exists := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			exists[fields[1]] = true
		}
	}
	names := 0
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, found := range testName.FindAllStringSubmatch(l.text, -1) {
				names++
				if !exists[found[1]] {
					t.Errorf("%s:%d: there is no test %s", d.path, l.number, found[1])
				}
			}
		}
	}
	require.Greater(t, names, 50)
}

// nameIn is a function or another name of the code, and the file that a document says it is in.
var nameIn = regexp.MustCompile("`(?:\\w+\\.)*(\\w+)`(?: and `(?:\\w+\\.)*(\\w+)`)?" +
	` in \[[^\]]*\]\(([^)\s]+\.(?:go|h|c))\)`)

// TestNamesInFiles: "`name` in [file](path)" is true.
func TestNamesInFiles(t *testing.T) {
	names := 0
	for _, d := range documents(t) {
		var text strings.Builder
		for _, l := range d.lines {
			text.WriteString(l.text + " ") // the name and its file may be on two lines
		}
		for _, found := range nameIn.FindAllStringSubmatch(text.String(), -1) {
			code, err := os.ReadFile(filepath.Join(root, filepath.Dir(d.path), found[3]))
			require.NoError(t, err)
			for _, name := range found[1:3] {
				if name == "" {
					continue
				}
				names++
				if !regexp.MustCompile(`\b` + name + `\b`).Match(code) {
					t.Errorf("%s: there is no %s in %s", d.path, name, found[3])
				}
			}
		}
	}
	require.Greater(t, names, 5)
}

// TestIndex: docs/README.md leads to each page below docs, but to those that an index
// of their own lists.
func TestIndex(t *testing.T) {
	index := map[string]bool{}
	for _, l := range readDocument(t, "docs/README.md").lines {
		for _, link := range inlineLink.FindAllStringSubmatch(l.text, -1) {
			index[filepath.Join("docs", link[1])] = true
		}
	}
	for _, path := range documentPaths(t) {
		if !strings.HasPrefix(path, "docs/") || path == "docs/README.md" || path != indexPage && index[filepath.Dir(path)] {
			continue
		}
		if filepath.Dir(path) == filepath.Clean(componentPages) && path != indexPage {
			continue
		}
		require.True(t, index[path], "docs/README.md does not lead to %s", path)
	}
}

// TestDecisions: decisions are numbered from 1, once each, by file and by title.
func TestDecisions(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "docs/decisions/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for i, path := range paths {
		require.Regexp(t, fmt.Sprintf(`^%04d-[a-z0-9-]+\.md$`, i+1), filepath.Base(path))
		title := readDocument(t, "docs/decisions/"+filepath.Base(path)).headings[0].text
		require.Regexp(t, fmt.Sprintf(`^%d\. [A-Z]`, i+1), title, path)
	}
}
