package stacks

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// mutation is a defect that is built into a command.
type mutation struct{ file, from, to string }

// mutations returns mutations of the code that makes rows from call frame information.
func mutations() map[string]mutation {
	return map[string]mutation{
		"the caller's rbp is never restored": {
			"ebpf/unwind/unwindtable/x86.go",
			"w.Rules = unwind.Rules(fp, ra)\n\treturn w, unwind.ReasonNone",
			"w.Rules = unwind.Rules(unwind.FPSame, ra)\n\t_ = fp\n\treturn w, unwind.ReasonNone"},
		"DW_CFA_restore_state leaves the CFA": {
			"ebpf/unwind/ehframe/program.go", "p.row.assign(&p.saved[p.depth])",
			"cfa := p.row.CFA\n\tp.row.assign(&p.saved[p.depth])\n\tp.row.CFA = cfa"},
	}
}

// built are the packages that were built without a defect.
var built sync.Map // of func() string, by package

// build builds a package of this module once.
func build(t testing.TB, pkg string) (path string) {
	t.Helper()
	once, _ := built.LoadOrStore(pkg, sync.OnceValue(func() string { return buildWith(rig.SharedT{TB: t}, pkg, nil) }))
	return once.(func() string)()
}

// lab is the folder of a module with programs that measure.
const lab = "./integration/lab/"

// buildWith builds a package of this module or of the one in lab, with a defect unless that is nil.
func buildWith(t testing.TB, pkg string, m *mutation) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, filepath.Base(pkg))
	args := []string{"build", "-buildvcs=false", "-o", path}
	if m != nil {
		args = append(args, "-overlay", m.overlay(t, dir))
	}
	module := "../.."
	if name, ok := strings.CutPrefix(pkg, lab); ok {
		module, pkg = filepath.Join(module, lab), "./"+name
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}

// overlay writes what go build -overlay reads.
func (m *mutation) overlay(t testing.TB, dir string) (path string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	source := rig.ReadFile(t, file)
	if strings.Count(source, m.from) != 1 {
		t.Fatalf("%s has not one place with %q: adapt the mutation", m.file, m.from)
	}
	mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	rig.WriteFile(t, mutant, strings.Replace(source, m.from, m.to, 1))
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	rig.WriteFile(t, overlay, string(text))
	return overlay
}
