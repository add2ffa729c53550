package docs

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// update writes the tables that are made of the code: go test ./integration/docs -update.
var update = flag.Bool("update", false, "write the tables that are made of the code into the documents")

// requireGenerated demands that the part of a document between <!-- name --> and
// <!-- end --> is want, or with -update makes it so.
func requireGenerated(t *testing.T, path, name, want string) {
	t.Helper()
	file := filepath.Join(root, path)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	begin := "<!-- " + name + " -->\n\n"
	before, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "%s has no line <!-- %s -->", path, name)
	got, after, ok := strings.Cut(rest, "\n<!-- end -->")
	require.True(t, ok, "%s: no line <!-- end --> after <!-- %s -->", path, name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+"\n<!-- end -->"+after), 0o644))
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s: run go test ./integration/docs -update (-the code +the page)\n%s", path, name, diff)
	}
}

// row is a row of a table.
func row(cells ...string) string {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}
