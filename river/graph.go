package river

import (
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/vm"

	"github.com/headwater/headwater/river/internal/dag"
	"github.com/headwater/headwater/river/internal/source"
)

// A node is the runtime's object for one block.
type node interface {
	// id is the block's name and label, joined by dots. It is constant.
	id() string

	// configure sets the graph for the following evaluations. It contains the node's block, or nil
	// for a setting whose block is not in the configuration.
	configure(g *graph)

	// evaluate decodes the block and applies it. It may be called concurrently.
	evaluate() error

	// exported returns the value of references to the node, which River must be able to encode, or
	// nil if the node cannot be referred to.
	exported() interface{}
}

// graph holds the nodes of one configuration. It is immutable once built.
type graph struct {
	*dag.Graph[node]
	byID        map[string]node
	blocks      map[node]*ast.BlockStmt
	standard    *vm.Scope
	offline     bool // see Options.Offline
	source      *Source
	arguments   map[string]any // values for the argument blocks
	definitions *definitions   // custom components that the blocks may use

	strangers map[string]*ast.BlockStmt // components that Headwater does not have, by ID
	leftOut   []ast.Stmt                // statements without a part in profiling, see Options.ProfilingOnly
}

func newGraph(m *module, text *Source, arguments map[string]any, outer *definitions) *graph {
	return &graph{
		Graph:     dag.New[node](),
		byID:      map[string]node{},
		blocks:    map[node]*ast.BlockStmt{},
		standard:  scopeIn(m.r.standard, text.Folder),
		offline:   m.r.options.Offline,
		source:    text,
		arguments: arguments,
		strangers: map[string]*ast.BlockStmt{},
		definitions: &definitions{
			parent:   outer,
			declares: map[string]*ast.BlockStmt{},
			imports:  map[string]*importNode{},
			folder:   text.Folder,
			files:    text.Files,
		},
	}
}

// scopeIn returns the scope of a configuration in folder.
func scopeIn(standard *vm.Scope, folder string) *vm.Scope {
	return &vm.Scope{Parent: standard, Variables: map[string]interface{}{"module_path": folder}}
}

func (g *graph) insert(n node, block *ast.BlockStmt) {
	g.Add(n)
	g.byID[n.id()] = n
	g.blocks[n] = block
}

// runnables returns the nodes that can run, in the order of the text.
func (g *graph) runnables() []runnable {
	var found []runnable
	for _, n := range g.Nodes() {
		if r, ok := n.(runnable); ok {
			found = append(found, r)
		}
	}
	return found
}

// instances returns the nodes that are components, in the order of the text.
func (g *graph) instances() []instance {
	var found []instance
	for _, n := range g.Nodes() {
		if c, ok := n.(instance); ok {
			found = append(found, c)
		}
	}
	return found
}

// wireReferences connects every node with the nodes that its block refers to.
func (g *graph) wireReferences() diag.Diagnostics {
	var diags diag.Diagnostics
	for _, n := range g.Nodes() {
		block := g.blocks[n]
		switch n := n.(type) {
		case *declareNode:
			for _, used := range g.definitionsUsed(block.Body) {
				g.Connect(n, used)
			}
			continue // it cannot refer to nodes outside
		case *customNode:
			for _, imported := range g.importsUsed(block) {
				g.Connect(n, imported)
			}
		}
		if block == nil {
			continue
		}
		references, unresolved := g.references(block.Body)
		diags = append(diags, unresolved...)
		for _, to := range references {
			g.Connect(n, to)
		}
	}
	return diags
}

// definitionsUsed returns the declare and import nodes of g that define components used by the
// blocks of body.
func (g *graph) definitionsUsed(body ast.Body) []node {
	var used []node
	for _, stmt := range body {
		block, ok := stmt.(*ast.BlockStmt)
		if !ok {
			continue
		}
		if block.GetBlockName() == declareName {
			used = append(used, g.definitionsUsed(block.Body)...)
			continue
		}
		if declare := g.definitions.declares[block.Name[0]]; declare != nil {
			used = append(used, g.byID[source.BlockID(declare)])
		} else if imported := g.definitions.imports[block.Name[0]]; imported != nil {
			used = append(used, imported)
		}
	}
	return used
}

// importsUsed returns the import nodes of g that a custom component's block uses, directly or
// through declare blocks.
func (g *graph) importsUsed(block *ast.BlockStmt) []node {
	var (
		imports []node
		seen    = map[node]bool{}
		visit   func(used []node)
	)
	visit = func(used []node) {
		for _, n := range used {
			if seen[n] {
				continue
			}
			seen[n] = true
			if _, ok := n.(*importNode); ok {
				imports = append(imports, n)
			} else {
				visit(g.definitionsUsed(g.blocks[n].Body))
			}
		}
	}
	visit(g.definitionsUsed(ast.Body{block}))
	return imports
}

func (g *graph) checkCycles() diag.Diagnostics {
	var diags diag.Diagnostics
	for _, cycle := range g.Cycles() {
		ids := make([]string, len(cycle))
		for i, n := range cycle {
			ids[i] = n.id()
		}
		diags.Add(diag.Diagnostic{
			Severity: diag.SeverityLevelError,
			Message:  "cycle: " + strings.Join(ids, ", "),
		})
	}
	for _, n := range g.SelfReferences() {
		diags.Add(diag.Diagnostic{
			Severity: diag.SeverityLevelError,
			Message:  "self reference: " + n.id(),
		})
	}
	return diags
}

// scopeOf returns the scope for the evaluation of a block that refers to dependencies: their
// exports, nested by the words of their IDs.
func scopeOf(standard *vm.Scope, dependencies []node) *vm.Scope {
	variables := map[string]interface{}{}
	for _, d := range dependencies {
		value := d.exported()
		if value == nil {
			continue
		}
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
		level[words[len(words)-1]] = value
	}
	return &vm.Scope{Parent: standard, Variables: variables}
}
