package ebpf

import (
	"os"
	"path/filepath"
	"testing"

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
				var defaults Arguments
				defaults.SetToDefault()
				defaults.ForwardTo, defaults.Settings.Targets, defaults.Settings.DefaultTarget = args.ForwardTo,
					args.Settings.Targets, args.Settings.DefaultTarget
				require.Equal(t, defaults, args, "options.river has the defaults")
			}
		}
	}
	require.NotZero(t, found)
}
