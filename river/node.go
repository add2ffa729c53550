package river

import (
	"context"
	"fmt"
	"sync"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/vm"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river/internal/source"
)

// A runnable is a node that runs: a component, a module or an import.
type runnable interface {
	node

	// references returns the nodes that the block refers to.
	references() []node

	// built reports whether there is something to run. It stays true.
	built() bool

	// run does the node's work until ctx is done.
	run(ctx context.Context)

	currentHealth() component.Health
}

// An instance is a node that the API and the pages show as a component.
type instance interface {
	runnable
	name() string           // the block's name
	label() string          // the block's label
	arguments() interface{} // a struct or map that River can encode
	debugInfo() interface{} // the like, or nil
	module() *module        // the module inside, or nil
}

// blockNode is what most nodes have in common.
type blockNode struct {
	nodeID   string
	globalID string

	// evalMu is held while the node is evaluated, so that one evaluation follows
	// the other. It guards block and standard.
	evalMu   sync.Mutex
	block    *ast.BlockStmt
	standard *vm.Scope

	// mu is held for moments only, never while a component's code runs.
	mu           sync.RWMutex
	blockLabel   string
	dependencies []node
	health       nodeHealth
}

func newBlockNode(m *module, block *ast.BlockStmt) blockNode {
	id := source.BlockID(block)
	return blockNode{
		nodeID:     id,
		globalID:   m.globalID(id),
		standard:   m.r.standard,
		block:      block,
		blockLabel: block.Label,
		health:     newNodeHealth(),
	}
}

func (n *blockNode) id() string { return n.nodeID }

// setGraph sets the graph to evaluate in from now on. self is the node that n is
// part of.
func (n *blockNode) setGraph(g *graph, self node) {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	n.block, n.standard = g.blocks[self], g.standard
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dependencies = g.Dependencies(self)
}

func (n *blockNode) references() []node {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.dependencies
}

func (n *blockNode) label() string { return n.blockLabel }

// decode evaluates body in the scope of what the block refers to.
func (n *blockNode) decode(body ast.Body, into interface{}) error {
	if err := decodeBody(body, scopeOf(n.standard, n.references()), into); err != nil {
		return fmt.Errorf("decoding River: %w", err)
	}
	return nil
}

func (n *blockNode) evaluated(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.health.evaluated(err)
}

func (n *blockNode) started() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.health.started()
}

func (n *blockNode) exited(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.health.exited(err)
}

// currentHealth is the worse of how the last evaluation went and how the run
// goes.
func (n *blockNode) currentHealth() component.Health {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return component.LeastHealthy(n.health.run, n.health.evaluation)
}
