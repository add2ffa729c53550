package river

import (
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"

	"github.com/headwater/headwater/river/internal/source"
)

// A traversal is an identifier and the names of the fields directly accessed through it: a.b.c in
// a.b.c[0].d and in a.b.c().d.
type traversal []*ast.Ident

func (t traversal) String() string {
	words := make([]string, len(t))
	for i, ident := range t {
		words[i] = ident.Name
	}
	return strings.Join(words, ".")
}

// traversals returns all traversals in part of a text, in its order.
func traversals(part ast.Node) []traversal {
	var f traversalFinder
	ast.Walk(&f, part)
	return f.found
}

type traversalFinder struct{ found []traversal }

// Visit implements ast.Visitor.
func (f *traversalFinder) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.IdentifierExpr:
		f.found = append(f.found, traversal{n.Ident})
	case *ast.AccessExpr:
		if t := accessed(n); t != nil {
			f.found = append(f.found, t)
			return nil // there are no other traversals inside
		}
	}
	return f
}

// accessed returns the traversal that ends in n, or nil if n contains anything but identifiers,
// accesses and parentheses.
func accessed(n *ast.AccessExpr) traversal {
	value := n.Value
	for {
		paren, ok := value.(*ast.ParenExpr)
		if !ok {
			break
		}
		value = paren.Inner
	}
	switch inner := value.(type) {
	case *ast.IdentifierExpr:
		return traversal{inner.Ident, n.Name}
	case *ast.AccessExpr:
		if t := accessed(inner); t != nil {
			return append(t, n.Name)
		}
	}
	return nil
}

// references returns the nodes that body refers to, without duplicates. A traversal refers to the
// node whose ID is a prefix of it; no ID is a prefix of another ID. Functions and constants are not
// references.
func (g *graph) references(body ast.Body) ([]node, diag.Diagnostics) {
	var (
		found []node
		diags diag.Diagnostics
		seen  = map[node]bool{}
	)
	for _, t := range traversals(body) {
		if _, standard := g.standard.Lookup(t[0].Name); standard {
			continue
		}
		n := g.resolve(t)
		if n == nil && g.isStranger(t) {
			continue // reported with all others
		}
		if n == nil {
			first, last := ast.StartPos(t[0]), ast.StartPos(t[len(t)-1])
			diags.Add(source.ErrorBetween(first, last, "component %q does not exist or is out of scope", t))
			continue
		}
		if !seen[n] {
			seen[n] = true
			found = append(found, n)
		}
	}
	return found, diags
}

func (g *graph) resolve(t traversal) node {
	for length := 1; length <= len(t); length++ {
		if n := g.byID[t[:length].String()]; n != nil {
			return n
		}
	}
	return nil
}

// isStranger reports whether a traversal refers to a component that Headwater does not have.
func (g *graph) isStranger(t traversal) bool {
	for length := 1; length <= len(t); length++ {
		if g.strangers[t[:length].String()] != nil {
			return true
		}
	}
	return false
}
