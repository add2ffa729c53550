package tree

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/headwater/headwater"

// layers are the folders of the repository, the lowest first. A package imports packages of its own layer and of lower
// layers. The longest folder that holds a package decides its layer.
var layers = [][]string{
	{"flame"},
	{"ebpf/common", "ebpf/host"},
	{"ebpf/object", "ebpf/unwind"},
	{"ebpf/language", "ebpf/symbol", "ebpf/process/target"},
	{"ebpf/kernel", "ebpf/process", "ebpf/language/merge", "ebpf/sampler"},
	{"ebpf"},
	{"component"},
	{"river"},
	{"cli", "."},
	{"integration"},
}

// testSupport are folders of packages that tests of every layer may import. Other code outside integration may not.
var testSupport = []string{"integration/testkit", "ebpf/unwind/ehframe/ehtest"}

// confined are modules that only some folders may import, so that the
// profiler stays a library that knows neither River nor Prometheus, and only
// one package knows how BPF objects are loaded.
var confined = []struct {
	module  string
	folders []string
}{
	{"github.com/cilium/ebpf", []string{"ebpf/kernel"}},
	{"github.com/grafana/river", []string{"river", "component", "integration"}},
	{"github.com/prometheus", []string{"river", "component", "integration"}},
	{"github.com/grafana/pyroscope", []string{"component", "integration"}},
}

// TestImports reads the import declarations of all files. It parses the files
// itself: the answer of `go list` would come stale from the test cache.
func TestImports(t *testing.T) {
	files := goFiles(t, "../..")
	if len(files) < 10 {
		t.Fatalf("only %d Go files found", len(files))
	}
	for _, file := range files {
		folder := path.Dir(file)
		if folder == "bpf" || strings.HasPrefix(folder, "bpf/") {
			t.Errorf("%s: bpf/ holds C only; a .c file next to a Go file does not build without cgo", file)
			continue
		}
		for _, imported := range importsOf(t, file) {
			checkImport(t, file, folder, imported)
		}
	}
}

// importsOf returns what a file of the repository imports.
func importsOf(t testing.TB, file string) (paths []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		paths = append(paths, imported)
	}
	return paths
}

func checkImport(t testing.TB, file, folder, imported string) {
	t.Helper()
	for _, c := range confined {
		if within(imported, c.module) && !withinAny(folder, c.folders) {
			t.Errorf("%s imports %s, which only %v may", file, imported, c.folders)
		}
	}
	if !within(imported, module) {
		return
	}
	target := path.Clean("./" + strings.TrimPrefix(imported, module))
	own, other := layerOf(folder), layerOf(target)
	switch {
	case own < 0 || other < 0:
		t.Errorf("%s imports %s: a folder is in no layer", file, target)
	case withinAny(target, testSupport):
		test := strings.HasSuffix(file, "_test.go") || withinAny(folder, testSupport)
		if !test && !within(folder, "integration") {
			t.Errorf("%s imports %s, which is for tests", file, target)
		}
	case other > own:
		t.Errorf("%s imports %s, whose layer %v is above its own", file, target, layers[other])
	}
}

// layerOf returns the index of a folder's layer, or -1.
func layerOf(folder string) int {
	found, longest := -1, ""
	for i, layer := range layers {
		for _, top := range layer {
			if within(folder, top) && len(top) > len(longest) {
				found, longest = i, top
			}
		}
	}
	return found
}

func withinAny(folder string, of []string) bool {
	return slices.ContainsFunc(of, func(top string) bool { return within(folder, top) })
}

// within reports whether a path is a folder or is below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// goFiles returns the Go files below root, by their slash-separated path in it, without nested modules and test data.
func goFiles(t testing.TB, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && name != root &&
			(strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || nested(name)):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			files = append(files, filepath.ToSlash(inside))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// nested reports whether a folder is a module of its own.
func nested(folder string) bool {
	found, err := filepath.Glob(filepath.Join(folder, "go.mod"))
	return err == nil && len(found) > 0
}
