// Command versions runs the tests of language runtimes with versions other than the installed one, and prints the
// results as JSON:
//
//	HEADWATER_PYTHONS=PATH:PATH HEADWATER_NODES=PATH HEADWATER_JAVAS=PATH integration/lab/run versions
//
// The variables list programs, separated by colons. It needs root. The test of Java profiles this host.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// language is a language whose versions are tested.
type language struct {
	name, variable string
	version        []string // arguments that print it
	packages       []string
	tests          string // a regular expression
}

var languages = []language{
	{
		"CPython", "HEADWATER_PYTHONS", []string{"--version"}, []string{"./ebpf/language/cpython"},
		"^(TestLayouts|TestVersion|TestStack)$",
	},
	{
		"node", "HEADWATER_NODES", []string{"--version"}, []string{"./ebpf/language/v8"},
		"^(TestLayouts|TestStopped|TestInlined|TestInlinedLoop)$",
	},
	{"Java", "HEADWATER_JAVAS", []string{"-version"}, []string{"./integration/java"},
		"^(TestSameInstant|TestVirtualThreads)$"},
}

// result is the result of the tests with a version. They also run with the installed version, and these runs count too.
type result struct {
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Passed   int      `json:"passed"`
	Failed   []string `json:"failed"`
}

func main() {
	if err := runVersions(); err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

func runVersions() error {
	results := []result{}
	for _, l := range languages {
		for _, program := range filepath.SplitList(os.Getenv(l.variable)) {
			r, err := l.testProgram(program)
			if err != nil {
				return fmt.Errorf("%s: %w", program, err)
			}
			fmt.Fprintln(os.Stderr, r)
			results = append(results, r)
		}
	}
	if len(results) == 0 {
		return errors.New("no variable lists a program")
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "\t")
	return e.Encode(map[string]any{"versions": results})
}

// number matches a version in a program's output.
var number = regexp.MustCompile(`\d+(\.\d+)+(_\d+)?`)

// testProgram runs the tests with a program.
func (l *language) testProgram(program string) (r result, err error) {
	printed, err := exec.Command(program, l.version...).CombinedOutput()
	if err != nil {
		return r, err
	}
	r = result{l.name, number.FindString(string(printed)), 0, []string{}}
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-json", "-run", l.tests}, l.packages...)...)
	cmd.Env = append(os.Environ(), l.variable+"="+program)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return r, err
	}
	return r, r.count(out)
}

// count counts the results in the output of go test -json, including tests with subtests.
func (r *result) count(out []byte) error {
	ended := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e struct{ Action, Test string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("go test -json: %w", err)
		}
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail") {
			ended[e.Test] = e.Action
		}
	}
	for test, action := range ended {
		if action == "pass" {
			r.Passed++
		} else {
			r.Failed = append(r.Failed, filepath.Base(test))
		}
	}
	if r.Passed+len(r.Failed) == 0 {
		return errors.New("no test ran")
	}
	slices.Sort(r.Failed)
	return nil
}
