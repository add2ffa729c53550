package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/record"
)

const repository = "../../.."

// TestDocuments: the figures of the documents match the records. `integration/lab/run figures` fills them in.
func TestDocuments(t *testing.T) {
	stale, err := fillAll(repository, true)
	require.NoError(t, err)
	require.Empty(t, stale, "run integration/lab/run figures")
}

// measured is a number with a unit of something that was measured.
var measured = regexp.MustCompile(`[0-9]\s?(%|[un]s\b|µs|ms\b|MB\b|s/min|s of CPU)`)

// TestNoFigureInProse: figures without a record are not allowed. In the documents about costs all figures are in blocks
// that are filled in.
func TestNoFigureInProse(t *testing.T) {
	for _, path := range []string{"docs/performance.md", "docs/reference/measurements.md"} {
		checkProse(t, document{root: repository, path: path})
	}
}

func checkProse(t *testing.T, d document) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, d.path))
	require.NoError(t, err)
	blocks := 0
	err = d.parse(string(text), func(prose string) {
		for line := range strings.Lines(prose) {
			require.False(t, measured.MatchString(line), "a figure outside of a block: %s", line)
		}
	}, func(b block) error {
		blocks++
		for line := range strings.Lines(b.template) {
			require.False(t, measured.MatchString(line), "a figure in a template: %s", line)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, blocks)
}

// TestRecords: each record is whole, shown in some document, and repeated by a command
// that there is.
func TestRecords(t *testing.T) {
	records, err := filepath.Glob(filepath.Join(repository, "integration/lab/results/*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, records)
	makefile, err := os.ReadFile(filepath.Join(repository, "integration/Makefile"))
	require.NoError(t, err)
	documents, err := documentsOf(repository)
	require.NoError(t, err)
	var shown strings.Builder
	for _, path := range documents {
		text, err := os.ReadFile(filepath.Join(repository, path))
		require.NoError(t, err)
		shown.Write(text)
	}
	for _, path := range records {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		r, err := record.Read(path, nil)
		require.NoError(t, err)
		require.True(t, strings.Contains(shown.String(), "results/"+name+".json)"), "no document shows %s", name)
		require.NotRegexp(t, `/(root|home|work|tmp)/`, r.Command, name)
		words := strings.Fields(r.Command)
		switch {
		case strings.HasPrefix(r.Command, "make -C integration "):
			require.Regexp(t, `(?m)^`+regexp.QuoteMeta(words[3])+`:`, string(makefile), name)
		case strings.HasPrefix(r.Command, "integration/lab/run "):
			require.FileExists(t, filepath.Join(repository, "integration/lab", words[1], "main.go"), name)
		default:
			require.Regexp(t, `^(\./headwater|go test) `, r.Command, name)
		}
	}
}

// tinyRepository has one record.
func tinyRepository(t *testing.T) document {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "integration/lab/results"), 0o755))
	const text = `{"date": "2026-11-22T07:39:57Z", "command": "make bench", "commit": "f8b195f2e1b9",
		"dirty": true, "go": "go1.26.8", "busy": true,
		"machine": {"cpu": "AMD EPYC", "cpus": 2, "kernel": "6.18.44"}, "before": {"cpu_percent": 34.4},
		"after": {"cpu_percent": 9.6},
		"values": {"startup": 0.3215, "figures": [{"key": "a", "values": [3, 1, 2]}]}}`
	require.NoError(t, os.WriteFile(filepath.Join(root, "integration/lab/results/tiny.json"), []byte(text), 0o644))
	return document{root: root, path: "docs/performance.md"}
}

func TestFill(t *testing.T) {
	d := tinyRepository(t)
	const before = "# Title\n\n<!-- figures\n" +
		`{{with record "tiny"}}| start | {{three .startup}} s | ` +
		`{{with find .figures "key" "a"}}{{three (median .values)}}{{end}} |{{end}}` +
		"\n-->\nold\n<!-- end of figures -->\n\nThe end.\n"
	const made = "\n| start | 0.32 s | 2.00 |\n\n<sub>[tiny](../integration/lab/results/tiny.json): `make bench`, " +
		"22 November 2026, " +
		"commit f8b195f2e1b9 with changes, " +
		"2 CPUs (AMD EPYC), Linux 6.18.44, go1.26.8; **provisional**: " +
		"other work used 34 % of the CPUs before and 10 % after.</sub>\n\n"
	filled, err := d.fillTemplates(before)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(before, "old\n", made, 1), filled)
	again, err := d.fillTemplates(filled)
	require.NoError(t, err)
	require.Equal(t, filled, again)
}

// TestFillDescribesOnce: only the first block with a record describes it.
func TestFillDescribesOnce(t *testing.T) {
	const block = "<!-- figures\n{{(record \"tiny\").startup}}\n-->\n<!-- end of figures -->\n"
	filled, err := tinyRepository(t).fillTemplates(block + block)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(filled, "`make bench`"))
	require.Contains(t, filled, "<sub>[tiny](../integration/lab/results/tiny.json): as above.</sub>")
}

// TestPerformanceIsShort: a person reads the page about costs; all tables are in docs/reference/measurements.md.
func TestPerformanceIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs/performance.md"))
	require.NoError(t, err)
	require.Less(t, len(strings.Fields(string(text))), 1501)
}

func TestFillRefuses(t *testing.T) {
	d := tinyRepository(t)
	for _, test := range [][2]string{
		{"\n<!-- figures\n{{record}}", "docs/performance.md:3: the template has no end"},
		{"<!-- figures\n\n-->\n", "docs/performance.md:2: the figures have no end"},
		{"<!-- figures\nx\n-->\n<!-- end of figures -->\n", "docs/performance.md:2: figures of no record"},
		{"\n\n<!-- figures\n{{nothing}}\n-->\n<!-- end of figures -->\n",
			"docs/performance.md:4: function \"nothing\" not defined"},
		{"\n<!-- figures\n{{(record \"tiny\").speed}}\n-->\n<!-- end of figures -->\n",
			`docs/performance.md:3:10: executing "docs/performance.md" at <"tiny">: map has no entry for key "speed"`},
		{"<!-- figures\n{{record \"none\"}}\n-->\n<!-- end of figures -->\n", "none.json: no such file"},
		{"<!-- figures\n{{find (record \"tiny\").figures \"key\" \"b\"}}\n-->\n<!-- end of figures -->\n", `no key is "b"`},
	} {
		text, want := test[0], test[1]
		_, err := d.fillTemplates(text)
		require.ErrorContains(t, err, want, text)
	}
}
