package docs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/unwind"
)

// TestOutcomes: the table of outcomes has each once.
func TestOutcomes(t *testing.T) {
	var want, got []string
	for o := unwind.Complete; o <= unwind.Switched; o++ {
		want = append(want, o.String())
	}
	for _, table := range readDocument(t, "docs/troubleshooting.md").tables() {
		if table.header[0] != "outcome" {
			continue
		}
		for _, row := range table.rows {
			got = append(got, strings.Trim(row[0], "`"))
		}
	}
	require.ElementsMatch(t, want, got)
}
