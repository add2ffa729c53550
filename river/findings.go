package river

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-kit/log/level"
	"github.com/grafana/river/ast"
	"github.com/grafana/river/token"

	"github.com/headwater/headwater/component"
)

// FindingKind is what a Finding is about.
type FindingKind int

const (
	// FindingUnseen is a block that a check without a network did not look at, or not completely.
	FindingUnseen FindingKind = iota
	// FindingWarning is an attribute that does not have the effect that it asks for.
	FindingWarning
	// FindingUnset is an environment variable that is not set.
	FindingUnset
	// FindingLeftOut is a kind of block that has no part in profiling, see Options.ProfilingOnly. The subject is its
	// name, the text says how many there are, and where.
	FindingLeftOut
)

// Finding is a remark on a configuration that loads.
type Finding struct {
	Kind    FindingKind
	At      token.Position
	Subject string // ID of the block in its text, or name of the variable
	Text    string // what there is to say about it; "" for a variable
}

// Findings returns remarks on the loaded configuration and its modules, without duplicates, in the
// order of the text.
func (r *Runtime) Findings() []Finding {
	found := map[Finding]bool{}
	note := func(f Finding) { found[f] = true }
	r.root.walkModules(func(m *module) {
		g := m.graph.Load()
		for _, n := range g.Nodes() {
			noteNode(note, n, g.blocks[n])
		}
		for _, block := range g.source.Blocks {
			noteVariables(note, block)
		}
		left := g.blocksLeftOut()
		kinds, places := summarize(left)
		for _, kind := range kinds {
			first := slices.IndexFunc(left, func(block *ast.BlockStmt) bool { return block.GetBlockName() == kind })
			note(Finding{FindingLeftOut, ast.StartPos(left[first]).Position(), kind, places[kind]})
		}
	})
	all := slices.Collect(maps.Keys(found))
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.At.Filename, b.At.Filename), a.At.Offset-b.At.Offset, int(a.Kind)-int(b.Kind),
			strings.Compare(a.Subject, b.Subject), strings.Compare(a.Text, b.Text))
	})
	return all
}

// remarked is a node that has remarks on its block.
type remarked interface {
	unseenReason() string
	currentWarnings() []*component.AttributeError
}

func noteNode(note func(Finding), n node, block *ast.BlockStmt) {
	of, ok := n.(remarked)
	if !ok || block == nil {
		return
	}
	at := ast.StartPos(block).Position()
	if reason := of.unseenReason(); reason != "" {
		note(Finding{FindingUnseen, at, n.id(), reason})
	}
	for _, w := range of.currentWarnings() {
		at := at
		if stmt := findAttribute(block.Body, strings.Split(w.Attribute, ".")); stmt != nil {
			at = ast.StartPos(stmt).Position()
		}
		note(Finding{FindingWarning, at, n.id(), w.Error()})
	}
	imported, ok := n.(*importNode)
	if !ok {
		return
	}
	defined := imported.definitions()
	for _, declare := range defined.declares {
		noteVariables(note, declare)
	}
	for _, inner := range defined.imports {
		noteNode(note, inner, inner.block)
		noteVariables(note, inner.block)
	}
}

func noteVariables(note func(Finding), block *ast.BlockStmt) {
	for _, v := range unsetVariables(block) {
		note(Finding{FindingUnset, v.at, v.name, ""})
	}
}

// currentWarnings returns the warnings about the block's arguments.
func (n *blockNode) currentWarnings() []*component.AttributeError {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.warnings
}

// blocksLeftOut returns the blocks without a part in profiling.
func (g *graph) blocksLeftOut() []*ast.BlockStmt {
	var left []*ast.BlockStmt
	for _, stmt := range g.leftOut {
		if block, ok := stmt.(*ast.BlockStmt); ok {
			left = append(left, block)
		}
	}
	return left
}

// logLeftOut logs once what a module leaves out.
func (m *module) logLeftOut(g *graph) {
	kinds, places := summarize(g.blocksLeftOut())
	if len(kinds) == 0 || m.loaded.Load() {
		return
	}
	for i, kind := range kinds {
		kinds[i] = kind + ": " + places[kind]
	}
	level.Info(m.r.logger).Log("msg", "left out, for it has no part in profiling", "module", m.id,
		"blocks", strings.Join(kinds, "; "))
}
