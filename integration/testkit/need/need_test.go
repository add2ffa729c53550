package need

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

// each calls yield for each call in the tests of the repository: in files _test.go, and in packages only for tests,
// which import testing.
func each(t *testing.T, yield func(path, function string, call *ast.CallExpr)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name := entry.Name(); name == "testdata" || path != root && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		isTest := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
		if !isTest && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		name := strings.TrimPrefix(path, root+"/")
		for _, declaration := range file.Decls {
			function := ""
			if f, ok := declaration.(*ast.FuncDecl); ok {
				function = f.Name.Name
			}
			ast.Inspect(declaration, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					yield(name, function, call)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// callee returns the name of the function or method, and what stands before it.
func callee(call *ast.CallExpr) (of, name string) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := selector.X.(*ast.Ident); ok {
		of = x.Name
	}
	return of, selector.Sel.Name
}

// TestToolsAreListed: each command that a test names is in the table, so that
// make test installs it.
func TestToolsAreListed(t *testing.T) {
	seen := 0
	each(t, func(path, function string, call *ast.CallExpr) {
		of, name := callee(call)
		if of != "exec" || !slices.Contains([]string{"Command", "CommandContext", "LookPath"}, name) {
			return
		}
		at := 0
		if name == "CommandContext" {
			at = 1
		}
		literal, ok := call.Args[at].(*ast.BasicLit)
		if !ok {
			return // it is for need.Tools to know
		}
		tool, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if !strings.Contains(tool, "/") && !slices.Contains(everywhere, tool) && Package(tool) == "" {
			t.Errorf("%s: %s runs %s, which integration/testkit/need/table does not have", path, function, tool)
		}
	})
	if seen < 30 {
		t.Errorf("only %d commands found", seen)
	}
}

// TestSkipsAreListed: no test is skipped silently. Each call of Skip is testkit's, or docs/testing.md lists it with its
// reason, and the list has no other entries.
func TestSkipsAreListed(t *testing.T) {
	var got []string
	each(t, func(path, function string, call *ast.CallExpr) {
		of, name := callee(call)
		testkit := strings.HasPrefix(path, "integration/testkit/") && !strings.HasPrefix(path, "integration/testkit/rig/")
		if testkit || of == "filepath" ||
			!slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name) {
			return
		}
		got = append(got, path+" "+function)
	})
	text, err := os.ReadFile(root + "/docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	row := regexp.MustCompile("(?m)^\\| `(\\S+\\.go)` `(\\w+)` \\| \\S.* \\|$")
	for _, row := range row.FindAllStringSubmatch(string(text), -1) {
		want = append(want, row[1]+" "+row[2])
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("calls of Skip (-listed in docs/testing.md +in the tests)\n%s", diff)
	}
}

// TestMissing runs itself in a process of its own without a tool: it is skipped
// with the reason, or fails with the package's name.
func TestMissing(t *testing.T) {
	if os.Getenv("NEED_MISSING") != "" {
		t.Setenv("PATH", t.TempDir())
		Tools(t, "readelf")
		t.Error("goes on")
		return
	}
	for required, want := range map[string]string{"0": "--- SKIP: TestMissing", "1": "--- FAIL: TestMissing"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
		cmd.Env = append(os.Environ(), "NEED_MISSING=1", "REQUIRE_KERNEL="+required)
		out, _ := cmd.CombinedOutput()
		for _, text := range []string{want, "readelf is missing", "apt-get install binutils"} {
			if !strings.Contains(string(out), text) {
				t.Errorf("REQUIRE_KERNEL=%s: no %q in\n%s", required, text, out)
			}
		}
		if strings.Contains(string(out), "goes on") {
			t.Errorf("REQUIRE_KERNEL=%s: goes on without the tool", required)
		}
	}
}
