package tree

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/headwater/headwater"

// ranks order the folders of the repository. A package imports only packages
// of a lower rank, or packages in folders below its own. A pattern that ends in
// /... stands for all folders below; the first pattern that fits counts.
var ranks = []struct {
	pattern string
	rank    int
}{
	{"ebpf/ehframe", 1}, {"ebpf/elffile", 1}, {"ebpf/gopclntab", 1}, {"ebpf/procfs", 0}, {"ebpf/procfs/helper", 0},
	{"ebpf/x86", 0},
	{"ebpf/codeflow", 2}, {"ebpf/stackheight", 1}, {"ebpf/filework", 2}, {"ebpf/debugfile", 3},
	{"ebpf/limit", 0}, {"ebpf/clock", 0}, {"ebpf/printable", 0}, {"ebpf/footprint", 1}, {"ebpf/counter", 0},
	{"ebpf/footprint/early", 1},
	{"ebpf/order", 0}, {"ebpf/kind", 0}, {"ebpf/numa", 0}, {"ebpf/trie", 0},
	{"ebpf/flameview", 1}, {"ebpf/export", 6}, {"ebpf/compare", 7}, {"ebpf/unwind", 2}, {"ebpf/cfi", 2},
	{"ebpf/dwarfline", 2},
	{"ebpf/ehframe/ehtest", 2}, {"integration/testkit/retry", 1},
	{"ebpf/unwindtable", 3}, {"ebpf/tablestore", 3},
	{"ebpf/runtime", 3}, {"ebpf/runtime/languages", 5}, {"ebpf/runtime/...", 4}, {"ebpf/symbol/debuginfod", 3},
	{"ebpf/symbol/jit", 3},
	{"ebpf/corefile", 3}, {"ebpf/kernel", 5}, {"ebpf/process", 5}, {"ebpf/symbol", 4}, {"ebpf/target", 4},
	{"ebpf/pprof", 5}, {"ebpf/sampler", 6},
	{"ebpf/heap", 8},
	{"ebpf", 9}, {"ebpf/offcpu", 8}, {"ebpf/probe", 6}, {"ebpf/probing", 8}, {"ebpf/record", 9}, {"ebpf/wait", 6},
	{"ebpf/profile", 7}, {"ebpf/snapshot", 7}, {"ebpf/verify", 7},
	{"ebpf/verify/reference", 0},
	{"component", 8}, {"component/pyroscope", 9}, {"component/pyroscope/limits", 9}, {"component/common/...", 9},
	{"component/discovery", 10}, {"component/otelcol", 10}, {"component/remote/polled", 10},
	{"component/discovery/conformance", 12}, {"component/all", 12},
	{"component/...", 11},
	{"river", 12}, {"river/...", 12},
	{"cli/internal/jsonout", 10},
	{"cli", 13}, {"cli/internal/outfile", 12}, {"cli/internal/digest", 11}, {"cli/internal/summary", 11},
	{"cli/internal/profilefile", 12}, {"cli/internal/fresh", 12}, {"cli/...", 13}, {".", 14},
	{"integration/record", 0}, {"integration/testkit", -1}, {"integration/testkit/...", -1}, {"integration/walks", 13},
	{"integration/lab", 13},
	{"integration/...", 14},
}

// testSupport are packages that only tests import, tests of every rank, and each other.
var testSupport = []string{"integration/testkit", "integration/testkit/...", "ebpf/ehframe/ehtest", "integration/lab"}

// confined are modules that only some folders may import, so that the
// profiler stays a library that knows neither River nor Prometheus, and only
// one package knows how BPF objects are loaded.
var confined = []struct {
	module  string
	folders []string
}{
	{"github.com/cilium/ebpf", []string{"ebpf/kernel"}},
	{"github.com/grafana/river", []string{"river", "river/...", "component", "component/...",
		"integration/conformance", "integration/docs", "integration/delivery"}},
	{"github.com/prometheus", []string{"river", "river/...", "component", "component/...",
		"integration/delivery", "integration/docs"}},
	{"github.com/grafana/pyroscope", []string{"component/...", "integration/..."}},
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
		rank, ok := rankOf(folder)
		if !ok {
			t.Errorf("%s: folder %s has no rank", file, folder)
			continue
		}
		for _, imported := range importsOf(t, file) {
			checkImport(t, file, folder, rank, imported)
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

func checkImport(t testing.TB, file, folder string, rank int, imported string) {
	t.Helper()
	for _, c := range confined {
		if within(imported, c.module) && !fitsAny(folder, c.folders) {
			t.Errorf("%s imports %s, which only %v may", file, imported, c.folders)
		}
	}
	if !within(imported, module) {
		return
	}
	target := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
	if target == "" {
		target = "."
	}
	other, ok := rankOf(target)
	switch {
	case !ok:
		t.Errorf("%s imports %s, which has no rank", file, target)
	case fitsAny(target, testSupport):
		if !strings.HasSuffix(file, "_test.go") && !fitsAny(folder, testSupport) {
			t.Errorf("%s imports %s, which is for tests", file, target)
		}
	case target == folder: // from its external test
	case other == rank && within(target, folder): // a package may be split in folders below it
	case other >= rank:
		t.Errorf("%s (rank %d) imports %s (rank %d)", file, rank, target, other)
	}
}

func rankOf(folder string) (int, bool) {
	for _, r := range ranks {
		if fits(folder, r.pattern) {
			return r.rank, true
		}
	}
	return 0, false
}

func fitsAny(folder string, patterns []string) bool {
	for _, pattern := range patterns {
		if fits(folder, pattern) {
			return true
		}
	}
	return false
}

func fits(folder, pattern string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(folder, below+"/")
	}
	return folder == pattern
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
