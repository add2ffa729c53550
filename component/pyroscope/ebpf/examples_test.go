package ebpf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/grafana/river/ast"
	"github.com/grafana/river/parser"
	"github.com/grafana/river/vm"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component/pyroscope"
)

// TestExamples decodes the pyroscope.ebpf blocks of the examples.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../river/examples/*.river")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	type receiver struct {
		Receiver pyroscope.Appendable `river:"receiver,attr"`
	}
	scope := &vm.Scope{Variables: map[string]interface{}{
		"pyroscope": map[string]interface{}{"write": map[string]interface{}{"server": receiver{&fakeReceiver{}}}},
	}}
	found := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(name, text)
		require.NoError(t, err)
		for _, statement := range file.Body {
			block, ok := statement.(*ast.BlockStmt)
			if !ok || block.GetBlockName() != Name {
				continue
			}
			found++
			var args Arguments
			require.NoError(t, vm.New(block.Body).Evaluate(scope, &args), name)
			require.Empty(t, args.Settings.Unused.withoutEffect(), name)
			if filepath.Base(name) == "options.river" {
				require.Empty(t, cmp.Diff(allDefaults(), args, cmpopts.EquateEmpty()), "options.river has the defaults")
			}
		}
	}
	require.NotZero(t, found)
}

// allDefaults returns the default arguments, with each block that has an effect.
func allDefaults() (args Arguments) {
	args.SetToDefault()
	s := &args.Settings
	s.Debuginfod, s.PageFaults, s.Heap, s.OffCPU = new(DebuginfodArguments), new(PageFaultsArguments),
		new(HeapArguments), new(OffCPUArguments)
	for _, block := range []interface{ SetToDefault() }{s.Debuginfod, s.PageFaults, s.Heap, s.OffCPU} {
		block.SetToDefault()
	}
	return args
}
