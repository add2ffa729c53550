// testlist maintains tests.txt, the list of all tests: a line for each function Test, Fuzz and Example with its package
// and the command that runs it.
//
//	testlist -write          write tests.txt from the source
//	testlist -packages       print the packages that have tests of make nightly
//	testlist -run            print the pattern for go test -run that selects these tests
//	testlist -ran test FILE  compare the events in FILE, as go test -json prints them, with what make test runs
//
// It must run in the root of the repository.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// listFile is the committed list, relative to the root of the repository.
const listFile = "integration/testlist/tests.txt"

// schedule says which command runs a test.
type schedule string

const (
	everyChange schedule = "test"    // make test runs it
	nightly     schedule = "nightly" // make nightly runs it
	both        schedule = "both"    // make test runs it, and make nightly with more programs, rounds or time
)

// test is a function that go test runs.
type test struct {
	Package string // its folder, relative to the root of the repository
	Name    string
	When    schedule
}

func (t test) String() string { return fmt.Sprintf("%s %s %s", t.Package, t.Name, t.When) }

func main() {
	write := flag.Bool("write", false, "write "+listFile+" from the source")
	packages := flag.Bool("packages", false, "print the packages that have tests of make nightly")
	run := flag.Bool("run", false, "print the pattern for go test -run that selects the tests of make nightly")
	ran := flag.String("ran", "",
		"compare the events in the file that follows with what make `COMMAND` runs: test or nightly")
	flag.Parse()
	if err := listTests(*write, *packages, *run, *ran, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "testlist:", err)
		os.Exit(1)
	}
}

func listTests(write, packages, run bool, ran string, files []string) error {
	tests, err := source(".")
	if err != nil {
		return err
	}
	late := slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return t.When == everyChange })
	switch {
	case write:
		return os.WriteFile(listFile, []byte(format(tests)), 0o644)
	case packages:
		found := map[string]bool{}
		for _, t := range late {
			found["./"+t.Package] = true
		}
		fmt.Println(strings.Join(slices.Sorted(maps.Keys(found)), " "))
	case run:
		found := map[string]bool{}
		for _, t := range late {
			found[t.Name] = true
		}
		fmt.Printf("^(%s)$\n", strings.Join(slices.Sorted(maps.Keys(found)), "|"))
	case ran != "" && len(files) > 0:
		return compareEvents(tests, ran, files)
	default:
		fmt.Print(format(tests))
	}
	return nil
}

func format(tests []test) string {
	var text strings.Builder
	for _, t := range tests {
		fmt.Fprintln(&text, t)
	}
	return text.String()
}

// source returns the tests of the main module below root and of the module of lab, sorted.
func source(root string) (tests []test, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root:
			if entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") || isOtherModule(root, name) {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, "_test.go"):
			folder, err := filepath.Rel(root, filepath.Dir(name))
			if err != nil {
				return err
			}
			found, err := testsOf(name, path.Clean(filepath.ToSlash(folder)))
			tests = append(tests, found...)
			return err
		}
		return nil
	})
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(tests), err // a test may be in files for several systems
}

// lab is the folder of the module whose tests make test also runs. It has none that are only for make nightly.
const lab = "integration/lab"

// isOtherModule reports whether a folder is the root of a module other than lab.
func isOtherModule(root, folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil && folder != filepath.Join(root, lab)
}

// testsOf returns the tests in a file. An example without expected output is only compiled, and does not count as a
// test.
func testsOf(file, folder string) (tests []test, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		name := function.Name.Name
		switch {
		case strings.HasPrefix(name, "Example") && printsOutput(parsed, function):
			tests = append(tests, test{folder, name, everyChange})
		case name != "TestMain" && (isTestName(name, "Test") || isTestName(name, "Fuzz")):
			tests = append(tests, test{folder, name, scheduleOf(function)})
		default:
			if outside := mention(function.Body); outside != "" {
				err = errors.Join(err, fmt.Errorf("%s: %s uses testkit.%s: only a function Test may", file, name, outside))
			}
		}
	}
	return tests, err
}

// isTestName reports whether go test treats a function with this name as a test or a fuzz target.
func isTestName(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && (rest == "" || strings.ToLower(rest[:1]) != rest[:1] || strings.Contains("_0123456789", rest[:1]))
}

func printsOutput(file *ast.File, function *ast.FuncDecl) bool {
	for _, group := range file.Comments {
		text := strings.ToLower(group.Text())
		if group.Pos() > function.Pos() && group.End() < function.End() &&
			(strings.HasPrefix(text, "output:") || strings.HasPrefix(text, "unordered output:")) {
			return true
		}
	}
	return false
}

// scheduleOf determines the command that runs a test, from its calls of testkit.Nightly and testkit.IsNightly.
func scheduleOf(function *ast.FuncDecl) schedule {
	if len(function.Body.List) > 0 {
		if statement, ok := function.Body.List[0].(*ast.ExprStmt); ok {
			if call, ok := statement.X.(*ast.CallExpr); ok && ofTestkit(call.Fun) == "Nightly" {
				return nightly
			}
		}
	}
	if mention(function.Body) != "" {
		return both
	}
	return everyChange
}

// mention returns the name of the testkit function for nightly tests that the body uses, if any.
func mention(body *ast.BlockStmt) (name string) {
	if body == nil {
		return ""
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if expression, ok := n.(ast.Expr); ok && ofTestkit(expression) != "" {
			name = ofTestkit(expression)
		}
		return true
	})
	return name
}

func ofTestkit(expression ast.Expr) string {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	of, ok := selector.X.(*ast.Ident)
	if !ok || of.Name != "testkit" || selector.Sel.Name != "Nightly" && selector.Sel.Name != "IsNightly" {
		return ""
	}
	return selector.Sel.Name
}

// compareEvents returns an error if a test that the command runs has no result in the files of events.
func compareEvents(tests []test, command string, files []string) error {
	results := map[string]string{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = readEvents(file, results)
		file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	var missing []string
	counts := map[string]int{}
	for _, t := range tests {
		if t.When != both && string(t.When) != command {
			continue
		}
		result, ok := results[t.Package+" "+t.Name]
		if !ok {
			missing = append(missing, t.Package+" "+t.Name)
		}
		counts[result]++
	}
	if len(missing) > 0 {
		return fmt.Errorf("make %s has not run %d tests:\n\t%s", command, len(missing), strings.Join(missing, "\n\t"))
	}
	fmt.Printf("make %s: %d tests passed, %d failed, %d skipped, as %s lists them\n",
		command, counts["pass"], counts["fail"], counts["skip"], listFile)
	return nil
}

// readEvents adds the results of tests, by package and name, from the output of go test -json.
func readEvents(from io.Reader, results map[string]string) error {
	const module = "github.com/headwater/headwater/"
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && line[0] == '{' {
			var event struct{ Action, Package, Test string }
			if err := json.Unmarshal(line, &event); err != nil {
				return err
			}
			if event.Test != "" && (event.Action == "pass" || event.Action == "fail" || event.Action == "skip") {
				results[strings.TrimPrefix(event.Package, module)+" "+event.Test] = event.Action
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
