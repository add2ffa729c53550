package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// update writes the tables that are made of the code: go test ./integration/docs -update.
var update = flag.Bool("update", false, "write the tables that are made of the code into the documents")

// facts is the number of columns of a table that are compared with the code: a name, and a default or labels. The
// sentences in the following columns are for readers: -update writes them, and authors may change them.
const facts = 2

// requireFacts demands that the table of a document between <!-- name --> and <!-- end -->
// has the facts of the one in made, in any order, and a meaning for each. With -update it
// writes made there.
func requireFacts(t *testing.T, path, name, made string) {
	t.Helper()
	file := filepath.Join(root, path)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	begin := "<!-- " + name + " -->\n\n"
	before, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "%s has no line <!-- %s -->", path, name)
	shown, after, ok := strings.Cut(rest, "\n<!-- end -->")
	require.True(t, ok, "%s: no line <!-- end --> after <!-- %s -->", path, name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+made+"\n<!-- end -->"+after), 0o644))
		return
	}
	if problem := compareFacts(made, shown); problem != "" {
		t.Errorf("%s, %s: %s\ngo test ./integration/docs -update writes the table", path, name, problem)
	}
}

// compareFacts returns how the facts of two texts with tables differ, or "".
func compareFacts(made, shown string) string {
	want, _ := factsIn(made)
	got, unexplained := factsIn(shown)
	if len(unexplained) > 0 {
		return fmt.Sprintf("no meaning of %q", unexplained)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return "-the code +the page\n" + diff
	}
	return ""
}

// factsIn returns the facts in the tables of a text, sorted, and the names that have no meaning.
func factsIn(text string) (rows, unexplained []string) {
	for _, table := range parseDocument("", text).tables() {
		for _, cells := range table.rows {
			if len(cells) <= facts || cells[facts] == "" {
				unexplained = append(unexplained, cells[0])
				continue
			}
			rows = append(rows, strings.Join(cells[:facts], " | "))
		}
	}
	slices.Sort(rows)
	return rows, unexplained
}

// TestCompareFacts: other sentences and another order are the same, other names and defaults are not.
func TestCompareFacts(t *testing.T) {
	table := func(rows ...string) string {
		return "Record.\n\n" + row("flag", "default", "meaning") + "|---|---|---|\n" + strings.Join(rows, "")
	}
	made := table(row("`-a`", "`false`", "All"), row("`-b`", "`x|y`", "Both"))
	for shown, want := range map[string]string{
		table(row("`-b`", "`x|y`", "Another sentence"), row("`-a`", "`false`", "All")): "",
		table(row("`-c`", "`false`", "All"), row("`-b`", "`x|y`", "Both")):             "`-c`",
		table(row("`-a`", "`true`", "All"), row("`-b`", "`x|y`", "Both")):              "`true`",
		table(row("`-a`", "`false`", "All")):                                           "`-b`",
		table(row("`-a`", "`false`", ""), row("`-b`", "`x|y`", "Both")):                "no meaning of",
		"": "`-a`",
	} {
		problem := compareFacts(made, shown)
		require.Equal(t, want == "", problem == "", problem)
		require.Contains(t, problem, want)
	}
}

// row is a row of a table.
func row(cells ...string) string {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}
