package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// avoided are words that make a reader stop, and what to write.
var avoided = []struct{ words, instead string }{
	{`anew`, "again"},
	{`for want of`, "without"},
	{`(take|takes|taken|taking) apart`, "decode"},
	{`in force`, "current, or: that applies"},
	{`(it|that|which|what|this|one|or) is none`, "there is none, or: is not one"},
	{`beside`, "next to, or: besides"},
	{`dear(er)?`, "expensive"},
	{`of which nothing`, "the consequence"},
	{`tells`, "reports, says or shows"},
	{`behind a call`, "after a call"},
	{`so many`, "the number, or the name of the parameter"},
}

// avoidedIn returns the words to avoid in a text, each with what to write.
func avoidedIn(text string) (found []string) {
	for _, hit := range anyAvoided.FindAllString(text, -1) {
		for _, a := range avoided {
			if regexp.MustCompile(`(?i)^(` + a.words + `)$`).MatchString(hit) {
				found = append(found, fmt.Sprintf("%q: write %s", hit, a.instead))
			}
		}
	}
	return found
}

// anyAvoided matches all avoided words.
var anyAvoided = func() *regexp.Regexp {
	var all []string
	for _, a := range avoided {
		all = append(all, a.words)
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
}()

// TestWordsOfDocuments looks for words to avoid outside of code.
func TestWordsOfDocuments(t *testing.T) {
	testkit.Lint(t)
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, problem := range avoidedIn(inlineCode.ReplaceAllString(l.text, "")) {
				t.Errorf("%s:%d: %s", d.path, l.number, problem)
			}
		}
	}
}

// TestWordsOfComments looks for words to avoid in the comments of Go files.
func TestWordsOfComments(t *testing.T) {
	testkit.Lint(t)
	eachGoFile(t, func(path string) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(root, path), nil, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range file.Comments {
			for _, comment := range group.List {
				for i, text := range strings.Split(comment.Text, "\n") {
					for _, problem := range avoidedIn(text) {
						t.Errorf("%s:%d: %s", path, files.Position(comment.Pos()).Line+i, problem)
					}
				}
			}
		}
	})
}

// TestWordsOfBPF looks for words to avoid in bpf/.
func TestWordsOfBPF(t *testing.T) {
	testkit.Lint(t)
	paths, err := filepath.Glob(filepath.Join(root, "bpf/*.[ch]"))
	require.NoError(t, err)
	require.Greater(t, len(paths), 5)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			for _, problem := range avoidedIn(line) {
				t.Errorf("%s:%d: %s", path, i+1, problem)
			}
		}
	}
}

// TestAvoidedIn: words count, and not parts of words.
func TestAvoidedIn(t *testing.T) {
	require.Equal(t, []string{`"Anew": write again`, `"tells": write reports, says or shows`}, avoidedIn("Anew it tells."))
	require.Empty(t, avoidedIn("There is none besides; tell them apart, enforce it."))
}

// eachGoFile calls yield for the Go files of the repository that people write.
func eachGoFile(t testing.TB, yield func(path string)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_bpfel.go"):
			return nil
		}
		files++
		inside, err := filepath.Rel(root, path)
		yield(inside)
		return err
	})
	require.NoError(t, err)
	require.Greater(t, files, 500)
}
