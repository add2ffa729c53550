package river

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river/internal/source"
)

// This file finds the part of a configuration that makes profiles, see Options.ProfilingOnly. The
// part consists of the components whose name starts with pyroscope., and of all blocks that they
// refer to, directly or not. A module is in the part if it contains such a component or if the part
// uses its exports; inside, it is divided in the same way. Settings of the runtime stay.

// part divides the blocks of one text.
type part struct {
	registry    component.Registry
	definitions *definitions
	blocks      []*ast.BlockStmt
	byID        map[string]*ast.BlockStmt
	kept        map[*ast.BlockStmt]bool
	needed      map[*ast.BlockStmt]map[string]bool // arguments that the definition of an instance needs
	diags       diag.Diagnostics
}

// newPart divides blocks. definitions are the custom components that they may use.
func newPart(registry component.Registry, definitions *definitions, blocks []*ast.BlockStmt) *part {
	p := &part{
		registry: registry, definitions: definitions, blocks: blocks,
		byID: map[string]*ast.BlockStmt{}, kept: map[*ast.BlockStmt]bool{},
		needed: map[*ast.BlockStmt]map[string]bool{},
	}
	for _, block := range blocks {
		if id := source.BlockID(block); p.byID[id] == nil {
			p.byID[id] = block
		}
	}
	for _, block := range blocks {
		if p.isRoot(block) {
			p.keepBlock(block)
		}
	}
	return p
}

// isRoot reports whether a block is in the part whether or not another block refers to it.
func (p *part) isRoot(block *ast.BlockStmt) bool {
	name := block.GetBlockName()
	switch {
	case name == declareName, isImport(name), name == argumentName:
		return false
	case name == exportName:
		return p.strangerOf(block.Body, nil) == nil
	case p.isStranger(block):
		return false
	case isSettingName(name), isModule(name), refusedBlock(name) != "":
		return true
	case name == foreachName:
		return profiles(templateOf(block), p.definitions)
	case p.definitions.isCustom(block.Name[0]):
		found, known := p.definitionOf(block)
		return !known || profiles(found.body, found.scope)
	case p.hasBlock(name):
		return strings.HasPrefix(name, profilingPrefix)
	default:
		return true // a mistake, which is reported later
	}
}

const profilingPrefix = "pyroscope."

func (p *part) hasBlock(name string) bool {
	_, found := p.registry.Get(name)
	return found
}

// isSettingName reports whether a block configures the runtime itself.
func isSettingName(name string) bool {
	return slices.Contains([]string{"logging", "http", "tracing", "livedebugging"}, name)
}

// The names of the block that repeats components, and of the block in it that holds them.
const (
	foreachName  = "foreach"
	templateName = "template"
)

// templateOf returns the components that a foreach block repeats.
func templateOf(block *ast.BlockStmt) ast.Body {
	for _, inner := range blocksOf(block.Body) {
		if inner.GetBlockName() == templateName {
			return inner.Body
		}
	}
	return nil
}

// profiles reports whether a body contains a component that makes or sends profiles. A module.*
// block may contain one.
func profiles(body ast.Body, scope *definitions) bool {
	return profilesWithin(body, scope, MaxDepth)
}

func profilesWithin(body ast.Body, scope *definitions, depth int) bool {
	if depth == 0 {
		return true
	}
	scope = scope.within(body)
	for _, stmt := range body {
		block, ok := stmt.(*ast.BlockStmt)
		if !ok {
			continue
		}
		name := block.GetBlockName()
		switch {
		case name == declareName:
		case strings.HasPrefix(name, profilingPrefix), isModule(name), isImport(name):
			return true
		case name == foreachName:
			if profilesWithin(templateOf(block), scope, depth-1) {
				return true
			}
		case scope.isCustom(block.Name[0]):
			found, known := scope.findDefinition(splitCustomName(block))
			if !known || profilesWithin(found.body, found.scope, depth-1) {
				return true
			}
		}
	}
	return false
}

// isStranger reports whether a block is a component that has no part in profiling and that
// Headwater does not have.
func (p *part) isStranger(block *ast.BlockStmt) bool {
	return !p.definitions.isCustom(block.Name[0]) && isStranger(block.GetBlockName(), p.registry)
}

// definitionOf returns the definition of a custom component, if it is known by now.
func (p *part) definitionOf(block *ast.BlockStmt) (definition, bool) {
	return p.definitions.findDefinition(splitCustomName(block))
}

// holds reports whether a block contains a module, which is divided by itself.
func (p *part) holds(block *ast.BlockStmt) bool {
	return isModule(block.GetBlockName()) || p.definitions.isCustom(block.Name[0])
}

func (p *part) resolve(t traversal) *ast.BlockStmt {
	for length := 1; length <= len(t); length++ {
		if block := p.byID[t[:length].String()]; block != nil {
			return block
		}
	}
	return nil
}

// keepBlock adds a block to the part, with all blocks that it refers to.
func (p *part) keepBlock(block *ast.BlockStmt) {
	if p.kept[block] {
		return
	}
	p.kept[block] = true
	if block.GetBlockName() == declareName {
		p.keepDefinitions(block.Body)
		return
	}
	if p.holds(block) {
		p.keepDefinitions(ast.Body{block})
		p.keepArguments(block)
		return
	}
	if isSettingName(block.GetBlockName()) || block.GetBlockName() == foreachName {
		p.keepDefinitions(block.Body)
		p.keepReferences(block, p.withoutStrangers(block.Body))
		return
	}
	p.keepReferences(block, block.Body)
}

// keepReferences adds the blocks that a body, which belongs to a block, refers to.
func (p *part) keepReferences(block *ast.BlockStmt, body ast.Body) {
	for _, t := range traversals(body) {
		to := p.resolve(t)
		if to == nil {
			continue
		}
		if stranger := p.strangerAt(to, t, nil); stranger != nil {
			p.diags.Add(source.ErrorBetween(ast.StartPos(t[0]), ast.StartPos(t[len(t)-1]),
				"%s needs %s, declared at %s, which Headwater does not have; %s", source.BlockID(block),
				source.BlockID(stranger), ast.StartPos(stranger).Position(), instead(stranger.GetBlockName())))
			continue
		}
		p.keepBlock(to)
	}
}

// keepDefinitions adds the declare and import blocks of this text that the blocks of body use.
func (p *part) keepDefinitions(body ast.Body) {
	for _, stmt := range body {
		block, ok := stmt.(*ast.BlockStmt)
		if !ok {
			continue
		}
		for _, definer := range p.blocks {
			name := definer.GetBlockName()
			if definer.Label == block.Name[0] && (name == declareName || isImport(name)) {
				p.keepBlock(definer)
			}
		}
		if name := block.GetBlockName(); name == declareName || name == foreachName || name == templateName {
			p.keepDefinitions(block.Body)
		}
	}
}

// keepArguments adds the blocks that the needed arguments of a module refer to.
func (p *part) keepArguments(block *ast.BlockStmt) {
	if found, known := p.definitionOf(block); known && !isModule(block.GetBlockName()) {
		p.needed[block] = neededArguments(p.registry, found)
	}
	for _, stmt := range p.withArguments(block) {
		p.keepReferences(block, ast.Body{stmt})
	}
}

// withArguments returns the body of a kept block without the statements that the part does not
// need.
func (p *part) withArguments(block *ast.BlockStmt) ast.Body {
	needed, known := p.needed[block]
	switch {
	case !p.holds(block):
		return block.Body
	case !known:
		return p.withoutStrangers(block.Body)
	}
	return slices.DeleteFunc(slices.Clone(block.Body), func(stmt ast.Stmt) bool {
		attribute, ok := stmt.(*ast.AttributeStmt)
		if !ok {
			return false
		}
		isNeeded, declared := needed[attribute.Name.Name]
		return declared && !isNeeded
	})
}

// withoutStrangers returns a body without the attributes that refer to strangers.
func (p *part) withoutStrangers(body ast.Body) ast.Body {
	var clean ast.Body
	for _, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.AttributeStmt:
			if p.strangerOf(stmt, nil) == nil {
				clean = append(clean, stmt)
			}
		case *ast.BlockStmt:
			inner := *stmt
			inner.Body = p.withoutStrangers(stmt.Body)
			clean = append(clean, &inner)
		}
	}
	return clean
}

// neededArguments returns the arguments that a definition declares, and whether the part of its body
// that makes profiles needs them.
func neededArguments(registry component.Registry, of definition) map[string]bool {
	needed := map[string]bool{}
	blocks := blocksOf(of.body)
	inner := newPart(registry, of.scope.within(of.body), blocks)
	for _, block := range blocks {
		if block.GetBlockName() == argumentName {
			needed[block.Label] = inner.kept[block]
		}
	}
	return needed
}

// strangerOf returns the first stranger that part of a text refers to, directly or not, or nil.
func (p *part) strangerOf(of ast.Node, seen map[*ast.BlockStmt]bool) *ast.BlockStmt {
	for _, t := range traversals(of) {
		if to := p.resolve(t); to != nil {
			if stranger := p.strangerAt(to, t, seen); stranger != nil {
				return stranger
			}
		}
	}
	return nil
}

// strangerAt returns the stranger that a reference to a block needs, or nil.
func (p *part) strangerAt(to *ast.BlockStmt, t traversal, seen map[*ast.BlockStmt]bool) *ast.BlockStmt {
	if seen[to] {
		return nil
	}
	if p.isStranger(to) {
		return to
	}
	if p.holds(to) {
		return p.strangerOfExport(to, t)
	}
	if seen == nil {
		seen = map[*ast.BlockStmt]bool{}
	}
	seen[to] = true
	return p.strangerOf(to.Body, seen)
}

// strangerOfExport returns the stranger that an export of a custom component needs, or nil if it
// needs none or is not known.
func (p *part) strangerOfExport(to *ast.BlockStmt, t traversal) *ast.BlockStmt {
	found, known := p.definitionOf(to)
	fields := t[min(len(t), strings.Count(source.BlockID(to), ".")+1):]
	if !known || isModule(to.GetBlockName()) || len(fields) == 0 {
		return nil
	}
	inner := &part{registry: p.registry, definitions: found.scope.within(found.body), byID: map[string]*ast.BlockStmt{}}
	for _, block := range blocksOf(found.body) {
		inner.byID[source.BlockID(block)] = block
	}
	export := inner.byID[exportName+"."+fields[0].Name]
	if export == nil {
		return nil
	}
	return inner.strangerOf(export.Body, nil)
}

func blocksOf(body ast.Body) []*ast.BlockStmt {
	var blocks []*ast.BlockStmt
	for _, stmt := range body {
		if block, ok := stmt.(*ast.BlockStmt); ok {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// within returns the definitions that the blocks of a body may use, where d are those outside.
func (d *definitions) within(body ast.Body) *definitions {
	inner := &definitions{parent: d, declares: map[string]*ast.BlockStmt{}, imports: map[string]*importNode{}}
	if d != nil {
		inner.folder, inner.files = d.folder, d.files
	}
	for _, block := range blocksOf(body) {
		if block.GetBlockName() == declareName {
			inner.declares[block.Label] = block
		}
	}
	return inner
}

// cutBlocks returns the blocks of the part, without the attributes that it does not need, and the
// statements left out.
func (p *part) cutBlocks() (kept []*ast.BlockStmt, left []ast.Stmt) {
	for _, block := range p.blocks {
		if !p.kept[block] {
			left = append(left, block)
			continue
		}
		body := block.Body
		switch {
		case p.holds(block):
			body = p.withArguments(block)
		case isSettingName(block.GetBlockName()):
			body = p.withoutStrangers(block.Body)
		}
		missing := missingFrom(block.Body, body)
		left = append(left, missing...)
		if len(missing) > 0 {
			changed := *block
			changed.Body = body
			block = &changed
		}
		kept = append(kept, block)
	}
	return kept, left
}

// missingFrom returns the attributes of all that are not in some, which has the same blocks.
func missingFrom(all, some ast.Body) []ast.Stmt {
	var missing []ast.Stmt
	for _, stmt := range all {
		block, ok := stmt.(*ast.BlockStmt)
		if !ok {
			if !slices.Contains(some, stmt) {
				missing = append(missing, stmt)
			}
			continue
		}
		for _, other := range some {
			if same, ok := other.(*ast.BlockStmt); ok && same.NamePos == block.NamePos {
				missing = append(missing, missingFrom(block.Body, same.Body)...)
			}
		}
	}
	return missing
}

// profilingPart returns the blocks of a text that have a part in profiling.
func (b *graphBuilder) profilingPart(blocks []*ast.BlockStmt) []*ast.BlockStmt {
	scope := b.graph.definitions.parent.within(nil)
	scope.folder, scope.files = b.source.Folder, b.source.Files
	for _, block := range blocks {
		switch name := block.GetBlockName(); {
		case name == declareName && scope.declares[block.Label] == nil:
			scope.declares[block.Label] = block
		case isImport(name) && block.Label != "" && scope.imports[block.Label] == nil:
			scope.imports[block.Label] = b.importAhead(block)
		}
	}
	p := newPart(b.r.options.Registry, scope, blocks)
	kept, left := p.cutBlocks()
	b.diags = append(b.diags, p.diags...)
	b.graph.leftOut = left
	for _, block := range blocks {
		if block.GetBlockName() == argumentName {
			b.dropped[block.Label] = !p.kept[block]
		}
	}
	return kept
}

// importAhead returns the node of an import block, and reads its text if the block is constant: what
// the part consists of depends on what is declared in it. The text of another import is not known
// yet, so all its components are in the part, and are divided later.
func (b *graphBuilder) importAhead(block *ast.BlockStmt) *importNode {
	n := b.importFor(block)
	if !b.onlyStandard(block.Body) {
		return n
	}
	n.evalMu.Lock()
	n.block, n.standard = block, b.standard
	n.evalMu.Unlock()
	_ = n.evaluate() // an error comes again when the graph is evaluated
	return n
}

// onlyStandard reports whether a body refers to the standard library alone.
func (b *graphBuilder) onlyStandard(body ast.Body) bool {
	return !slices.ContainsFunc(traversals(body), func(t traversal) bool {
		_, standard := b.standard.Lookup(t[0].Name)
		return !standard
	})
}

// importFor returns the node of an import block, which is that of the current graph if there is one.
func (b *graphBuilder) importFor(block *ast.BlockStmt) *importNode {
	id := source.BlockID(block)
	if n := b.ahead[id]; n != nil {
		return n
	}
	n, ok := b.previous.byID[id].(*importNode)
	if !ok {
		n = newImportNode(b.module, block, b.module.changes.putNode)
	}
	b.ahead[id] = n
	return n
}

// strangers is the error for the components of a text that Headwater does not have: their kinds, how
// many of each, and where.
func strangers(blocks []*ast.BlockStmt) diag.Diagnostic {
	kinds, places := summarize(blocks)
	var text strings.Builder
	fmt.Fprintf(&text, "Headwater does not have %s of Alloy that this configuration has:",
		plural(len(blocks), "component"))
	for _, kind := range kinds {
		fmt.Fprintf(&text, "\n  %s: %s", kind, places[kind])
		if servesProfiles(kind) {
			text.WriteString("; " + instead(kind))
		}
	}
	text.WriteString("\nHeadwater makes profiles. The flag --profiling-only leaves out what has no part in that. " +
		"To run all of it, run Alloy, with Headwater's pyroscope.ebpf in it or next to it")
	first := blocks[0]
	return source.ErrorAtName(first, len(first.GetBlockName()), "%s", text.String())
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// summarize returns the names of blocks, in alphabetical order, and the places of each name: how
// many, and the lines.
func summarize(blocks []*ast.BlockStmt) (kinds []string, places map[string]string) {
	lines := map[string][]string{}
	file := ""
	for _, block := range blocks {
		at := ast.StartPos(block).Position()
		line := fmt.Sprint(at.Line)
		if at.Filename != file && file != "" {
			line = fmt.Sprintf("%s:%d", at.Filename, at.Line)
		} else {
			file = at.Filename
		}
		kind := block.GetBlockName()
		lines[kind] = append(lines[kind], line)
	}
	places = map[string]string{}
	for kind, at := range lines {
		word := "lines"
		if len(at) == 1 {
			word = "line"
		}
		places[kind] = fmt.Sprintf("%d (%s %s)", len(at), word, strings.Join(at, ", "))
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds, places
}
