package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/headwater/headwater/integration/testkit/record"
)

// A document holds its figures in blocks. Each block starts with a comment that holds a text/template, followed by the
// template's output for the records, and an end mark:
//
//	<!-- figures
//	| start to first sample | {{three (record "peer").startup}} s |
//	-->
//
//	| start to first sample | 0.32 s |
//
//	<!-- end of figures -->
//
// The sources of the figures are listed below them.
// resultsFolder has the records.
const resultsFolder = "integration/lab/results"

const (
	opening = "<!-- figures\n"
	between = "\n-->\n"
	closing = "<!-- end of figures -->\n"
)

// shared are templates that each block can use.
//
//go:embed shared.tmpl
var shared string

// document is a Markdown file.
type document struct {
	root, path string // of the repository, and of the file in it
}

// block is a part of a document.
type block struct {
	line     int // of its template
	template string
}

// fillTemplates returns the text with all blocks generated again.
func (d document) fillTemplates(text string) (string, error) {
	var filled strings.Builder
	described := map[string]bool{}
	err := d.parse(text, func(prose string) {
		filled.WriteString(prose)
	}, func(b block) error {
		made, err := d.render(b, described)
		if err != nil {
			return err
		}
		filled.WriteString(opening + b.template + between + "\n" + made + "\n" + closing)
		return nil
	})
	return filled.String(), err
}

// parse calls prose and figures for the parts of a text, in order.
func (d document) parse(text string, prose func(string), figures func(block) error) error {
	rest := text
	for {
		before, after, ok := strings.Cut(rest, opening)
		prose(before)
		if !ok {
			return nil
		}
		b := block{line: 1 + strings.Count(text[:len(text)-len(after)], "\n")}
		template, after, ok := strings.Cut(after, between)
		if !ok {
			return fmt.Errorf("%s:%d: the template has no end: a line with --> alone", d.path, b.line)
		}
		old, after, ok := strings.Cut(after, closing)
		if !ok || strings.Contains(old, opening) {
			return fmt.Errorf("%s:%d: the figures have no end: the line %s", d.path, b.line, strings.TrimSpace(closing))
		}
		b.template, rest = template, after
		if err := figures(b); err != nil {
			return err
		}
	}
}

// render generates the figures of a block, and the lines that name their sources. Records that an earlier block has
// described are named only.
func (d document) render(b block, described map[string]bool) (string, error) {
	used := &sources{dir: filepath.Join(d.root, resultsFolder), described: described}
	functions := functions()
	functions["record"] = used.values
	t, err := template.New("shared").Option("missingkey=error").Funcs(functions).Parse(shared)
	if err != nil {
		return "", err
	}
	text := strings.Repeat("\n", b.line-1) + b.template
	if t, err = t.New(d.path).Parse(text); err != nil {
		return "", err // contains file and line
	}
	var out strings.Builder
	if err := t.Execute(&out, nil); err != nil {
		return "", err
	}
	if len(used.names) == 0 {
		return "", fmt.Errorf("%s:%d: figures of no record", d.path, b.line)
	}
	return strings.TrimSpace(out.String()) + "\n\n" + used.lines(d.path) + "\n", nil
}

// sources are the records that a block uses.
type sources struct {
	dir       string
	names     []string
	records   map[string]*record.Record
	decoded   map[string]any
	described map[string]bool // records of the document whose circumstances were written
}

// values is the template function `record`: it returns the values of a record by name.
func (s *sources) values(name string) (any, error) {
	if values, ok := s.decoded[name]; ok {
		return values, nil
	}
	var values any
	r, err := record.Read(filepath.Join(s.dir, name+".json"), &values)
	if err != nil {
		return nil, err
	}
	if s.records == nil {
		s.records, s.decoded = map[string]*record.Record{}, map[string]any{}
	}
	s.names = append(s.names, name)
	s.records[name], s.decoded[name] = r, values
	return values, nil
}

// lines describes each used record, and how to repeat it, with a link that works in the document.
func (s *sources) lines(path string) string {
	var lines []string
	for _, name := range s.names {
		link, err := filepath.Rel(filepath.Dir(path), filepath.Join(resultsFolder, name+".json"))
		if err != nil {
			link = name // cannot happen: both are relative
		}
		about := "as above"
		if r := s.records[name]; !s.described[name] {
			about = fmt.Sprintf("`%s`, %s", r.Command, circumstances(r))
		}
		s.described[name] = true
		lines = append(lines, fmt.Sprintf("[%s](%s): %s.", name, link, about))
	}
	return "<sub>" + strings.Join(lines, "<br>\n") + "</sub>"
}

// circumstances describes the conditions of a record, which a reader needs to judge it.
func circumstances(r *record.Record) string {
	m := r.Machine
	text := fmt.Sprintf("%s, commit %s", r.Date.Format("2 January 2006"), r.Commit)
	if r.Dirty {
		text += " with changes"
	}
	text += fmt.Sprintf(", %d CPUs (%s), Linux %s, %s", m.CPUs, m.CPU, m.Kernel, r.Go)
	if r.Busy {
		text += fmt.Sprintf("; **provisional**: other work used %.0f %% of the CPUs before and %.0f %% after",
			r.Before.CPU, r.After.CPU)
	}
	return text
}
