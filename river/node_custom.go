package river

import (
	"context"
	"fmt"
	"reflect"

	"github.com/grafana/river/ast"

	"github.com/headwater/headwater/river/internal/source"
)

// moduleHolder is the part of a node that contains a module and provides its exports.
type moduleHolder struct {
	blockNode
	outer     *module
	inner     *module
	onExports func() // called after the exports changed; does not block

	// These are guarded by blockNode.mu.
	args    map[string]any
	exports map[string]any
	ready   bool // evaluated at least once, so the node is ready to run
}

func newModuleHolder(m *module, block *ast.BlockStmt) moduleHolder {
	return moduleHolder{blockNode: newBlockNode(m, block), outer: m}
}

// holdModule creates the module. It calls notify after each change of the exports.
func (n *moduleHolder) holdModule(notify func()) {
	n.onExports = notify
	n.inner = newModule(n.outer.r, n.globalID, n.outer, n.setExports)
}

func (n *moduleHolder) setExports(exports map[string]any) {
	n.mu.Lock()
	changed := !reflect.DeepEqual(n.exports, exports)
	n.exports = exports
	n.mu.Unlock()
	if changed {
		n.onExports()
	}
}

func (n *moduleHolder) currentExports() map[string]any {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.exports == nil {
		return map[string]any{}
	}
	return n.exports
}

func (n *moduleHolder) setArguments(args map[string]any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.args = args
	n.ready = true
}

func (n *moduleHolder) built() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.ready
}

func (n *moduleHolder) module() *module { return n.inner }

// customNode is an instance of a declare block.
type customNode struct {
	moduleHolder
	blockName   string
	definitions *definitions // guarded by evalMu
}

func newCustomNode(m *module, block *ast.BlockStmt) *customNode {
	n := &customNode{moduleHolder: newModuleHolder(m, block), blockName: block.GetBlockName()}
	n.holdModule(func() { m.changes.putNode(n) })
	return n
}

func (n *customNode) configure(g *graph) {
	n.setGraph(g, n)
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	n.definitions = g.definitions
}

func (n *customNode) evaluate() error {
	n.evalMu.Lock()
	defer n.evalMu.Unlock()
	err := n.lookOffline(protect(n.evaluateLocked))
	n.evaluated(err)
	return err
}

func (n *customNode) evaluateLocked() error {
	var args map[string]any
	if err := n.decode(n.block.Body, &args); err != nil {
		return err
	}
	n.setArguments(args)
	n.outer.requestSchedule()

	namespace, name := splitCustomName(n.block)
	definition, found := n.definitions.findDefinition(namespace, name)
	if imported := n.definitions.unseenImport(namespace); !found && imported != "" {
		return &source.UnseenError{Reason: "is declared by " + imported + ", which was not looked at"}
	}
	if !found {
		return fmt.Errorf(
			"loading custom component controller: custom component config not found in the registry, namespace: %q, "+
				"componentName: %q", namespace, name)
	}
	if err := n.outer.checkNesting(definition.body); err != nil {
		return err
	}
	n.inner.body = definition.body
	text, err := source.OfBody(definition.body, definition.scope.files, definition.scope.folder)
	if err == nil {
		err = n.inner.loadText(text, args, definition.scope)
	}
	if err != nil {
		return fmt.Errorf("updating custom component: %w", err)
	}
	return nil
}

// exported returns the values of the module's export blocks by label.
func (n *customNode) exported() interface{} { return n.currentExports() }

func (n *customNode) runComponent(ctx context.Context) {
	n.started()
	n.inner.runComponents(ctx)
	n.exited(nil)
}

func (n *customNode) name() string           { return n.blockName }
func (n *customNode) debugInfo() interface{} { return nil }

func (n *customNode) arguments() interface{} {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.args == nil {
		return map[string]any{}
	}
	return n.args
}
