package docs

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component/all"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/river"
)

const (
	componentPages = "docs/reference/components/"
	clientPage     = componentPages + "http-client.md"
	indexPage      = componentPages + "README.md"
)

// page is what a page says in its tables.
type page struct {
	arguments []argument
	blocks    []block
	exports   []argument
}

// pageOf reads the tables below a heading of level 2 of a document, or with "" all of
// them. A heading of level 3 in backquotes is the block that the tables below are of.
func pageOf(t testing.TB, d *document, section string) (p page) {
	t.Helper()
	for _, table := range d.tables() {
		if section != "" && (len(table.section) < 2 || table.section[1] != section) {
			continue
		}
		p.add(t, d, table)
	}
	for _, l := range d.lines {
		if d.path != clientPage && strings.Contains(l.text, "](http-client.md)") {
			p.include(pageOf(t, readDocument(t, clientPage), ""), prefixOf(l.section))
		}
	}
	p.sort()
	return p
}

func (p *page) add(t testing.TB, d *document, table table) {
	t.Helper()
	prefix := prefixOf(table.section)
	for _, row := range table.rows {
		name := prefix + strings.Trim(row[0], "`")
		switch table.header[0] {
		case "argument":
			require.NotEmpty(t, row[3], "%s:%d: %s has no description", d.path, table.line, name)
			p.arguments = append(p.arguments, argument{name, row[1], defaultIn(row[2])})
		case "export":
			p.exports = append(p.exports, argument{name, row[1], ""})
		case "block":
			require.NotEmpty(t, row[2], "%s:%d: %s has no description", d.path, table.line, name)
			p.blocks = append(p.blocks, block{name, row[1]})
		}
	}
}

// include adds what another page says.
func (p *page) include(other page, prefix string) {
	for _, a := range other.arguments {
		a.Name = prefix + a.Name
		p.arguments = append(p.arguments, a)
	}
	for _, b := range other.blocks {
		b.Name = prefix + b.Name
		p.blocks = append(p.blocks, b)
	}
}

func (p *page) sort() {
	byName := func(a, b argument) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.arguments, byName)
	slices.SortFunc(p.exports, byName)
	slices.SortFunc(p.blocks, func(a, b block) int { return strings.Compare(a.Name, b.Name) })
}

// prefixOf returns the block that a section describes, followed by a dot.
func prefixOf(section []string) string {
	if len(section) < 3 || !strings.HasPrefix(section[2], "`") {
		return ""
	}
	return strings.Trim(section[2], "`") + "."
}

// defaultIn returns what a cell says of a default.
func defaultIn(cell string) string {
	if cell == "not set" {
		return ""
	}
	return strings.Trim(cell, "`")
}

// want is what the page of a struct should say.
func want(args, exports any) (p page) {
	s := schemaOf(args)
	p.arguments, p.blocks = s.arguments, s.blocks
	if exports != nil {
		p.exports = schemaOf(exports).arguments
		for i := range p.exports {
			p.exports[i].Default = ""
		}
	}
	p.sort()
	return p
}

func compare(t *testing.T, path string, want, got page) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(page{})); diff != "" {
		t.Errorf("%s: -what River reads into the Go struct +what the page says\n%s", path, diff)
	}
}

// TestComponents: each component has a page, whose tables say what River reads, with
// the defaults; and there is no other page.
func TestComponents(t *testing.T) {
	registry, err := all.Registry()
	require.NoError(t, err)
	pages := []string{path.Base(clientPage), path.Base(indexPage)}
	for _, name := range registry.Names() {
		pages = append(pages, name+".md")
		t.Run(name, func(t *testing.T) {
			registration, _ := registry.Get(name)
			d := readDocument(t, componentPages+name+".md")
			require.Equal(t, name, d.headings[0].text)
			compare(t, d.path, want(registration.Args, registration.Exports), pageOf(t, d, ""))
			require.True(t, slices.ContainsFunc(d.fences, func(f fence) bool { return f.language == "river" }),
				"an example")
		})
	}
	files, err := filepath.Glob(filepath.Join(root, componentPages, "*.md"))
	require.NoError(t, err)
	for _, file := range files {
		require.Contains(t, pages, filepath.Base(file), "the page of no component")
	}
	client := config.HTTPClientConfig{}
	compare(t, clientPage, want(client, nil), pageOf(t, readDocument(t, clientPage), ""))
}

// TestComponentIndex: the index lists each component once.
func TestComponentIndex(t *testing.T) {
	registry, err := all.Registry()
	require.NoError(t, err)
	var listed []string
	for _, table := range readDocument(t, indexPage).tables() {
		for _, row := range table.rows {
			listed = append(listed, regexp.MustCompile("^\\[`(.*)`\\]").FindStringSubmatch(row[0])[1])
		}
	}
	slices.Sort(listed)
	require.Equal(t, registry.Names(), listed)
}

// TestConfigBlocks: the page of the blocks that are no components.
func TestConfigBlocks(t *testing.T) {
	d := readDocument(t, "docs/reference/config-blocks.md")
	for section, args := range map[string]any{
		"logging": river.LoggingArguments{}, "tracing": river.TracingArguments{}, "http": river.HTTPArguments{},
	} {
		t.Run(section, func(t *testing.T) {
			compare(t, d.path, want(args, nil), pageOf(t, d, section))
		})
	}
}

// TestSchema: what a struct of every kind of field becomes.
func TestSchema(t *testing.T) {
	s := schemaOf(sample{})
	require.Equal(t, []argument{
		{"name", "string", "required"}, {"many", "list(map(string))", "[]"}, {"rate", "number", "97"},
		{"maybe", "bool", ""}, {"inner.wait", "duration", `"1m"`}, {"each.on", "bool", "true"},
	}, s.arguments)
	require.Equal(t, []block{{"inner", "0 or 1"}, {"each", "any number"}}, s.blocks)
}

type sample struct {
	Name   string              `river:"name,attr"`
	Many   []map[string]string `river:"many,attr,optional"`
	Rate   int                 `river:"rate,attr,optional"`
	Maybe  *bool               `river:"maybe,attr,optional"`
	Inner  sampleInner         `river:"inner,block,optional"`
	Each   []*sampleEach       `river:"each,block,optional"`
	Hidden int
}

type sampleInner struct {
	Wait time.Duration `river:"wait,attr,optional"`
}

type sampleEach struct {
	On bool `river:"on,attr,optional"`
}

func (s *sample) SetToDefault() { *s = sample{Rate: 97, Inner: sampleInner{Wait: time.Minute}} }

func (s *sampleEach) SetToDefault() { s.On = true }
