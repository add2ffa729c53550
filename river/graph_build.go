package river

import (
	"fmt"
	"maps"
	"slices"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"

	"github.com/headwater/headwater/river/internal/source"
)

// The names of blocks that are not components.
const (
	argumentName = "argument"
	exportName   = "export"
	declareName  = "declare"
)

// graphBuilder builds the graph of a text.
type graphBuilder struct {
	*module
	*graph
	previous *graph
	diags    diag.Diagnostics
	ahead    map[string]*importNode // nodes of import blocks, by ID
	dropped  map[string]bool        // arguments that the text declares and that its part for profiles does not need
}

// buildGraph builds the graph of a text. It reuses nodes of the current graph whose blocks are
// still in the text, and does not change them: if there are diagnostics, the current graph stays in
// use.
func (m *module) buildGraph(text *Source, arguments map[string]any, outer *definitions) (*graph, diag.Diagnostics) {
	b := &graphBuilder{
		module: m, graph: newGraph(m, text, arguments, outer), previous: m.graph.Load(),
		ahead: map[string]*importNode{}, dropped: map[string]bool{},
	}
	blocks := text.Blocks
	if m.r.options.ProfilingOnly {
		if blocks = b.profilingPart(blocks); len(b.diags) > 0 {
			sortDiagnostics(b.diags)
			return b.graph, b.diags
		}
	}
	components := b.insertConfigBlocks(blocks)
	b.checkArguments()
	b.insertComponents(components)
	b.diags = append(b.diags, b.wireReferences()...)
	b.diags = append(b.diags, b.checkCycles()...)
	sortDiagnostics(b.diags)
	return b.graph, b.diags
}

// insertConfigBlocks adds the nodes of all blocks that are not components, and returns
// the blocks of components.
func (b *graphBuilder) insertConfigBlocks(blocks []*ast.BlockStmt) (components []*ast.BlockStmt) {
	settings := map[string]*ast.BlockStmt{}
	for _, block := range blocks {
		name := block.GetBlockName()
		switch {
		case b.isSetting(name):
			b.noteSetting(settings, block)
		case name == declareName:
			b.insertDeclare(block)
		case isImport(name):
			b.insertImport(block)
		case name == argumentName, name == exportName:
			b.insertArgumentOrExport(block)
		case refusedBlock(name) != "":
			b.diags.Add(source.ErrorAt(block, "%s", refusedBlock(name)))
		default:
			components = append(components, block)
		}
	}
	if b.module.parent == nil {
		for _, n := range b.r.settings {
			b.insert(n, settings[n.id()])
		}
	}
	return components
}

// refusedBlock returns the reason why an Alloy block is not accepted, or "".
func refusedBlock(name string) string {
	switch name {
	case "foreach":
		return "foreach blocks are experimental in Alloy, and not supported: write one block for each element"
	case "remotecfg":
		return "remotecfg blocks are not supported: load the configuration with import.http, or module.http"
	default:
		return ""
	}
}

func (b *graphBuilder) isSetting(name string) bool {
	return slices.ContainsFunc(b.r.settings, func(n *settingNode) bool { return n.id() == name })
}

func (b *graphBuilder) noteSetting(settings map[string]*ast.BlockStmt, block *ast.BlockStmt) {
	name := block.GetBlockName()
	switch first := settings[name]; {
	case b.module.parent != nil:
		b.diags.Add(source.ErrorAt(block, "%s block not allowed inside a module", name))
	case first != nil:
		b.diags.Add(source.ErrorAt(block, "%q block already declared at %s", name, ast.StartPos(first).Position()))
	default:
		settings[name] = block
	}
}

func (b *graphBuilder) insertDeclare(block *ast.BlockStmt) {
	id := source.BlockID(block)
	switch {
	case block.Label == declareName:
		b.diags.Add(source.ErrorAt(block, "'declare' is not a valid label for a declare block"))
	case block.Label == "":
		b.diags.Add(source.ErrorAtName(block, len(id), "declare blocks must have a label, the name of the component"))
	case b.byID[id] != nil:
		b.diags.Add(source.ErrorAtName(block, len(id), "cannot add declare node %q; node with same ID already exists", id))
	default:
		b.definitions.declares[block.Label] = block
		b.insert(&declareNode{nodeID: id}, block)
	}
}

func (b *graphBuilder) insertImport(block *ast.BlockStmt) {
	id := source.BlockID(block)
	switch {
	case block.Label == "":
		b.diags.Add(source.ErrorAtName(block, len(id), "%s blocks must have a label, the namespace of the import", id))
	case b.declaredBefore(block):
	case b.definitions.imports[block.Label] != nil:
		b.diags.Add(source.ErrorAt(block, "the namespace %s already belongs to %s", block.Label,
			b.definitions.imports[block.Label].id()))
	default:
		n := b.importFor(block)
		b.definitions.imports[block.Label] = n
		b.insert(n, block)
	}
}

func (b *graphBuilder) insertArgumentOrExport(block *ast.BlockStmt) {
	name := block.GetBlockName()
	switch {
	case b.module.parent == nil:
		b.diags.Add(source.ErrorAt(block, "%s blocks only allowed inside a module", name))
	case b.declaredBefore(block):
	case name == argumentName:
		b.insert(newArgumentNode(block), block)
	default:
		b.insert(newExportNode(b.module, block), block)
	}
}

// declaredBefore adds a diagnostic if there is already a node with the block's ID.
func (b *graphBuilder) declaredBefore(block *ast.BlockStmt) bool {
	id := source.BlockID(block)
	first := b.byID[id]
	if first != nil {
		b.diags.Add(source.ErrorAt(block, "%q block already declared at %s", id, ast.StartPos(b.blocks[first]).Position()))
	}
	return first != nil
}

// checkArguments refuses values for arguments that the module does not declare.
func (b *graphBuilder) checkArguments() {
	for _, name := range slices.Sorted(maps.Keys(b.arguments)) {
		if _, ok := b.byID[argumentName+"."+name].(*argumentNode); !ok && !b.dropped[name] {
			b.diags.Add(diag.Diagnostic{
				Severity: diag.SeverityLevelError,
				Message:  fmt.Sprintf("Provided argument %q is not defined in the module", name),
			})
		}
	}
}

func (b *graphBuilder) insertComponents(blocks []*ast.BlockStmt) {
	declared := make(map[string]*ast.BlockStmt, len(blocks))
	var unknown []*ast.BlockStmt
	for _, block := range blocks {
		id, name := source.BlockID(block), block.GetBlockName()
		if first := declared[id]; first != nil {
			b.diags.Add(source.ErrorAtName(block, len(id), "Component %s already declared at %s", id,
				ast.StartPos(first).Position()))
			continue
		}
		declared[id] = block
		if !b.definitions.isCustom(block.Name[0]) && isStranger(name, b.r.options.Registry) {
			b.strangers[id] = block
			unknown = append(unknown, block)
			continue
		}
		n, reason := b.componentFor(block)
		if reason != "" {
			b.diags.Add(source.ErrorAtName(block, len(name), "%s", reason))
			continue
		}
		b.insert(n, block)
	}
	if len(unknown) > 0 {
		b.diags.Add(strangers(unknown))
	}
	b.checkLabels(declared)
}

// checkLabels refuses a custom component without a label if another component of the same name has
// a label: a reference such as name.x would be ambiguous.
func (b *graphBuilder) checkLabels(declared map[string]*ast.BlockStmt) {
	for id, block := range declared {
		if block.Label == "" || !b.definitions.isCustom(block.Name[0]) {
			continue
		}
		if plain := declared[block.GetBlockName()]; plain != nil {
			b.diags.Add(source.ErrorAtName(block, len(id), "component %q is also used without a label at %s",
				block.GetBlockName(), ast.StartPos(plain).Position()))
		}
	}
}

// componentFor returns the node of a component's block. It reuses the node of the current graph if
// it has the same kind.
func (b *graphBuilder) componentFor(block *ast.BlockStmt) (n node, reason string) {
	id, name := source.BlockID(block), block.GetBlockName()
	known := b.previous.byID[id]
	switch registration, found := b.r.options.Registry.Get(name); {
	case b.definitions.isCustom(block.Name[0]):
		if custom, ok := known.(*customNode); ok {
			return custom, ""
		}
		return newCustomNode(b.module, block), ""
	case isModule(name) && block.Label != "":
		if loader, ok := known.(*moduleNode); ok {
			return loader, ""
		}
		return newModuleNode(b.module, block), ""
	case !found && !isModule(name):
		return nil, unknownComponent(name, b.r.options.Registry.Names())
	case block.Label == "":
		return nil, fmt.Sprintf("component %q must have a label", name)
	default:
		if component, ok := known.(*componentNode); ok {
			return component, ""
		}
		return newComponentNode(b.module, registration, block), ""
	}
}
