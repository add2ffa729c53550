package river

import (
	"fmt"
	"sync"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/vm"
)

const loggingID = "logging"

// loggingNode applies the logging block, or the defaults where there is none.
type loggingNode struct {
	logger   *Logger
	standard *vm.Scope

	mu           sync.Mutex
	block        *ast.BlockStmt
	dependencies []node
}

func (n *loggingNode) id() string { return loggingID }

func (n *loggingNode) exported() interface{} { return map[string]interface{}{} }

func (n *loggingNode) configure(block *ast.BlockStmt, dependencies []node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.block, n.dependencies = block, dependencies
}

func (n *loggingNode) evaluate() error {
	n.mu.Lock()
	defer n.mu.Unlock()

	var arguments LoggingArguments
	arguments.SetToDefault()
	if n.block != nil {
		// The body, not the block: a label is ignored, as in the Agent.
		evaluator := vm.New(n.block.Body)
		err := protect(func() error {
			return evaluator.Evaluate(scopeOf(n.standard, n.dependencies), &arguments)
		})
		if err != nil {
			return fmt.Errorf("decoding River: %w", err)
		}
	}
	n.logger.Configure(arguments)
	return nil
}
