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

	// built reports whether the node is ready to run. Once true, it stays true.
	built() bool

	// run does the node's work until ctx is done.
	runComponent(ctx context.Context)

	currentHealth() component.Health
}

// An instance is a node that the API and the pages show as a component.
type instance interface {
	runnable
	name() string           // the block's name
	label() string          // the block's label
	arguments() interface{} // a struct or map that River can encode
	debugInfo() interface{} // likewise, or nil
	module() *module        // the module inside, or nil
}

// blockNode is the common part of most nodes.
type blockNode struct {
	nodeID   string
	globalID string
	offline  bool // see Options.Offline

	// evalMu is held during an evaluation of the node, so that evaluations do not overlap. It
	// guards block and standard.
	evalMu   sync.Mutex
	block    *ast.BlockStmt
	standard *vm.Scope
	graph    *graph // nil for a nested import

	// mu is held only briefly, never while a component's code runs.
	mu           sync.RWMutex
	blockLabel   string
	dependencies []node
	health       nodeHealth
	unseen       string                      // why a check without a network did not look at all of the block, or ""
	warnings     []*component.AttributeError // about the arguments that were decoded last
}

func newBlockNode(m *module, block *ast.BlockStmt) blockNode {
	id := source.BlockID(block)
	return blockNode{
		nodeID:     id,
		globalID:   m.globalID(id),
		offline:    m.r.options.Offline,
		standard:   m.r.standard,
		block:      block,
		blockLabel: block.Label,
		health:     newNodeHealth(),
	}
}

func (n *blockNode) id() string { return n.nodeID }

// setGraph sets the graph for the following evaluations. self is the node that contains n.
func (n *blockNode) setGraph(g *graph, self node) {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	n.block, n.standard, n.graph = g.blocks[self], g.standard, g
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

// decode evaluates body in the scope of the block's references.
func (n *blockNode) decode(body ast.Body, into interface{}) error {
	scope := scopeOf(n.standard, n.references())
	var err error
	if n.offline {
		err = lookout{scope, n.resolve}.decode(body, into)
	} else {
		err = decodeBody(body, scope, into)
	}
	if err != nil {
		return fmt.Errorf("decoding River: %w", err)
	}
	if warner, ok := into.(component.Warner); ok {
		warnings := warner.Warnings()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.warnings = warnings
	}
	return nil
}

// resolve returns the node that a traversal in the block refers to, or nil.
func (n *blockNode) resolve(t traversal) node {
	if n.graph == nil {
		return nil
	}
	return n.graph.resolve(t)
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

// currentHealth returns the worse health of the last evaluation and of the run.
func (n *blockNode) currentHealth() component.Health {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return component.LeastHealthy(n.health.run, n.health.evaluation)
}
