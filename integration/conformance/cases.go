// Package conformance holds configurations with a known answer, case by case: the results in the flow runtime of
// Grafana Agent v0.40. An answer says whether the Agent accepts the configuration, which diagnostics it reports at
// which places, and the resulting arguments, exports and health of its components.
//
// A table is a file testdata/NAME.cases; the answers of the real Agent are in testdata/NAME.expect. If this module's
// runtime deliberately answers differently, its answer is in testdata/NAME.differs, with the reason. The tests of this
// package run the tables in our runtime; the tests of the nested module integration/agent run them in the Agent and
// write the .expect files (make -C integration agent-test UPDATE=1).
package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Case is a configuration, with the changes made to it while it runs.
type Case struct {
	Name  string
	Steps []Step // at least one; loaded one after the other
}

// A Step is one version of the configuration.
type Step struct {
	Text string

	// Files are written before Text is loaded, by name. They are in the folder that Text calls $DIR.
	Files map[string]string
}

// Tables returns the names of all tables in folder, without ".cases". It returns an error if there is none.
func Tables(folder string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.cases"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no table in %s", folder)
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".cases")
	}
	return names, nil
}

// ReadCases reads a table. A line "### NAME" starts a case, "--- reload" its next step, and "--- file NAME" a file of
// the step. Lines before the first case are comments.
func ReadCases(path string) ([]Case, error) {
	sections, err := readSections(path)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, s := range sections {
		c := Case{Name: s.name}
		for i, part := range s.parts {
			kind, name, _ := strings.Cut(part.heading, " ")
			switch {
			case i == 0 || kind == "reload":
				c.Steps = append(c.Steps, Step{Text: part.text, Files: map[string]string{}})
			case kind == "file" && name != "":
				c.Steps[len(c.Steps)-1].Files[name] = part.text
			default:
				return nil, fmt.Errorf("%s: case %q: a line --- %s means nothing here", path, s.name, part.heading)
			}
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// ReadAnswers reads the Agent's answers to a table, by case name.
func ReadAnswers(path string) (map[string]string, error) {
	sections, err := readSections(path)
	if err != nil {
		return nil, err
	}
	answers := make(map[string]string, len(sections))
	for _, s := range sections {
		answers[s.name] = s.text
	}
	return answers, nil
}

// WriteAnswers writes the answers to cases, in the order of cases.
func WriteAnswers(path string, cases []Case, answers map[string]string) error {
	var text strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&text, "### %s\n%s", c.Name, answers[c.Name])
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// A Difference is an answer that our runtime deliberately gives instead of the Agent's.
type Difference struct {
	Reason string // in one line
	Answer string
}

const reasonMark = "reason: "

// ReadDifferences reads a .differs file, by case name. If the file does not exist, there are no differences.
func ReadDifferences(path string) (map[string]Difference, error) {
	sections, err := readSections(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	differences := make(map[string]Difference, len(sections))
	for _, s := range sections {
		line, answer, _ := strings.Cut(s.text, "\n")
		reason, ok := strings.CutPrefix(line, reasonMark)
		if !ok || reason == "" {
			return nil, fmt.Errorf("%s: case %q gives no reason", path, s.name)
		}
		differences[s.name] = Difference{Reason: reason, Answer: answer}
	}
	return differences, nil
}

// WriteDifferences writes a .differs file, in the order of cases.
func WriteDifferences(path string, cases []Case, differences map[string]Difference) error {
	text := "Where our runtime means to answer otherwise than the Agent.\n\n"
	for _, c := range cases {
		if d, ok := differences[c.Name]; ok {
			text += fmt.Sprintf("### %s\n%s%s\n%s", c.Name, reasonMark, d.Reason, d.Answer)
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// section is the part of a file after a line "### NAME".
type section struct {
	name  string
	text  string // the whole text
	parts []part // the text divided by lines "--- HEADING"; the first part has no heading
}

type part struct{ heading, text string }

func readSections(path string) ([]section, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var sections []section
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "### "); ok {
			if seen[name] {
				return nil, fmt.Errorf("%s: two cases are named %q", path, name)
			}
			seen[name] = true
			sections = append(sections, section{name: name, parts: []part{{}}})
			continue
		}
		if len(sections) == 0 {
			continue
		}
		s := &sections[len(sections)-1]
		s.text += line + "\n"
		if heading, ok := strings.CutPrefix(line, "--- "); ok {
			s.parts = append(s.parts, part{heading: heading})
			continue
		}
		s.parts[len(s.parts)-1].text += line + "\n"
	}
	return sections, lines.Err()
}
