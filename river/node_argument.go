package river

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/grafana/river/ast"

	"github.com/headwater/headwater/river/internal/source"
)

// argumentNode is a value that a module gets from outside. Each load creates new ones.
type argumentNode struct {
	nodeID, label string

	mu      sync.Mutex
	graph   *graph
	value   any
	unknown bool // to a check without a network
}

type argumentBlock struct {
	Optional bool   `river:"optional,attr,optional"`
	Default  any    `river:"default,attr,optional"`
	Comment  string `river:"comment,attr,optional"`
}

func newArgumentNode(block *ast.BlockStmt) *argumentNode {
	return &argumentNode{nodeID: source.BlockID(block), label: block.Label}
}

func (n *argumentNode) id() string { return n.nodeID }

func (n *argumentNode) configure(g *graph) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.graph = g
}

func (n *argumentNode) evaluate() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	given, isGiven := n.graph.arguments[n.label]
	_, n.unknown = given.(unknownArgument)
	if isGiven && !n.unknown {
		n.value = given
	}
	var argument argumentBlock
	err := decodeIn(n.graph, n, &argument)
	if _, unseen := notSeen(err); unseen && n.graph.offline {
		n.unknown = n.unknown || !isGiven
		return nil
	}
	switch {
	case isGiven && err != nil:
		return err
	case isGiven:
		return nil
	case err == nil && argument.Optional:
		n.value = argument.Default
		return nil
	default: // this matters more than an error in the block
		return fmt.Errorf("missing required argument %q to module", n.label)
	}
}

// decodeIn evaluates a node's block in a graph.
func decodeIn(g *graph, n node, into interface{}) error {
	err := protect(func() error {
		scope := scopeOf(g.standard, g.Dependencies(n))
		if g.offline {
			return lookout{scope, g.resolve}.decode(g.blocks[n].Body, into)
		}
		return decodeBody(g.blocks[n].Body, scope, into)
	})
	if err != nil {
		return fmt.Errorf("decoding River: %w", err)
	}
	return nil
}

func (n *argumentNode) exported() interface{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return map[string]any{"value": n.value}
}

// exportNode is a value that a module exports. Each load creates new ones.
type exportNode struct {
	nodeID, label string
	onChange      func(n node)

	evalMu sync.Mutex
	graph  *graph

	mu      sync.Mutex
	value   any
	unknown bool // to a check without a network
}

type exportBlock struct {
	Value any `river:"value,attr"`
}

func newExportNode(m *module, block *ast.BlockStmt) *exportNode {
	return &exportNode{nodeID: source.BlockID(block), label: block.Label, onChange: m.changes.putNode}
}

func (n *exportNode) id() string            { return n.nodeID }
func (n *exportNode) exported() interface{} { return nil }

func (n *exportNode) configure(g *graph) {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	n.graph = g
}

func (n *exportNode) evaluate() error {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	var export exportBlock
	err := decodeIn(n.graph, n, &export)
	_, unknown := notSeen(err)
	if err != nil && !(unknown && n.graph.offline) {
		return err
	}
	n.mu.Lock()
	n.unknown = unknown
	changed := !reflect.DeepEqual(n.value, export.Value)
	n.value = export.Value
	n.mu.Unlock()
	if changed {
		n.onChange(n)
	}
	return nil
}

func (n *exportNode) current() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.value
}
