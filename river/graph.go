package river

import (
	"fmt"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/vm"
)

// A node is what the runtime makes of one block.
type node interface {
	// id is the block's name and label, joined by dots. It never changes.
	id() string

	// configure sets the block to evaluate from now on, and the nodes that it
	// refers to. block is nil for the logging node of a configuration without a
	// logging block.
	configure(block *ast.BlockStmt, dependencies []node)

	// evaluate decodes the block and applies it. It may be called from several
	// goroutines.
	evaluate() error

	// exported is what references to the node see: a value that River can
	// encode.
	exported() interface{}
}

// graph holds the nodes of one configuration. It is not changed once built.
type graph struct {
	*dag[node]
	byID     map[string]node
	blocks   map[node]*ast.BlockStmt
	standard *vm.Scope
}

func newGraph(standard *vm.Scope) *graph {
	return &graph{dag: newDAG[node](), byID: map[string]node{}, blocks: map[node]*ast.BlockStmt{}, standard: standard}
}

func (g *graph) insert(n node, block *ast.BlockStmt) {
	g.add(n)
	g.byID[n.id()] = n
	g.blocks[n] = block
}

// components returns the component nodes in the order of the text.
func (g *graph) components() []*componentNode {
	var found []*componentNode
	for _, n := range g.nodes {
		if c, ok := n.(*componentNode); ok {
			found = append(found, c)
		}
	}
	return found
}

// buildGraph makes the graph of a source. Nodes of the previous graph that the
// source still describes are taken over, but not touched: if there are
// diagnostics, the previous graph stays as it is.
func (r *Runtime) buildGraph(source *Source, previous *graph) (*graph, diag.Diagnostics) {
	var (
		g          = newGraph(r.standard)
		components []*ast.BlockStmt
		logging    *ast.BlockStmt
		diags      diag.Diagnostics
	)
	for _, block := range source.blocks {
		name := block.GetBlockName()
		switch reason := refusedBlock(name); {
		case reason != "":
			diags.Add(errorAt(block, "%s", reason))
		case name != loggingID:
			components = append(components, block)
		case logging != nil:
			diags.Add(errorAt(block, "%q block already declared at %s", name, ast.StartPos(logging).Position()))
		default:
			logging = block
		}
	}
	g.insert(r.loggingNode, logging)
	diags = append(diags, r.insertComponents(g, components, previous)...)
	diags = append(diags, g.wire()...)
	diags = append(diags, g.checkCycles()...)
	sortDiagnostics(diags)
	return g, diags
}

// refusedBlock says why a block that is no component is not accepted, or
// returns "".
func refusedBlock(name string) string {
	switch name {
	case "argument", "export":
		return name + " blocks only allowed inside a module"
	case "declare", "tracing", "http", "import.file", "import.git", "import.http", "import.string", "foreach", "remotecfg":
		return fmt.Sprintf("%s blocks are not supported yet", name)
	default:
		return ""
	}
}

func (r *Runtime) insertComponents(g *graph, blocks []*ast.BlockStmt, previous *graph) diag.Diagnostics {
	var (
		diags    diag.Diagnostics
		declared = make(map[string]*ast.BlockStmt, len(blocks))
	)
	for _, block := range blocks {
		id, name := blockID(block), block.GetBlockName()
		if first := declared[id]; first != nil {
			diags.Add(errorAtName(block, len(id), "Component %s already declared at %s", id, ast.StartPos(first).Position()))
			continue
		}
		declared[id] = block

		if known, ok := previous.byID[id].(*componentNode); ok {
			g.insert(known, block)
			continue
		}
		registration, found := r.options.Registry.Get(name)
		switch {
		case !found:
			diags.Add(errorAtName(block, len(name), "cannot retrieve the definition of component name %q", name))
		case block.Label == "":
			diags.Add(errorAtName(block, len(name), "component %q must have a label", name))
		default:
			g.insert(newComponentNode(r, registration, block), block)
		}
	}
	return diags
}

// wire connects every node with those that its block refers to.
func (g *graph) wire() diag.Diagnostics {
	var diags diag.Diagnostics
	for _, n := range g.nodes {
		block := g.blocks[n]
		if block == nil {
			continue
		}
		references, unresolved := g.references(block.Body)
		diags = append(diags, unresolved...)
		for _, to := range references {
			g.connect(n, to)
		}
	}
	return diags
}

func (g *graph) checkCycles() diag.Diagnostics {
	var diags diag.Diagnostics
	for _, cycle := range g.cycles() {
		ids := make([]string, len(cycle))
		for i, n := range cycle {
			ids[i] = n.id()
		}
		diags.Add(diag.Diagnostic{
			Severity: diag.SeverityLevelError,
			Message:  "cycle: " + strings.Join(ids, ", "),
		})
	}
	for _, n := range g.selfReferences() {
		diags.Add(diag.Diagnostic{
			Severity: diag.SeverityLevelError,
			Message:  "self reference: " + n.id(),
		})
	}
	return diags
}

// scopeOf returns the scope in which a block that refers to dependencies is
// evaluated: their exports, nested by the words of their IDs.
func scopeOf(standard *vm.Scope, dependencies []node) *vm.Scope {
	variables := map[string]interface{}{}
	for _, d := range dependencies {
		words := strings.Split(d.id(), ".")
		level := variables
		for _, word := range words[:len(words)-1] {
			inner, ok := level[word].(map[string]interface{})
			if !ok {
				inner = map[string]interface{}{}
				level[word] = inner
			}
			level = inner
		}
		level[words[len(words)-1]] = d.exported()
	}
	return &vm.Scope{Parent: standard, Variables: variables}
}
