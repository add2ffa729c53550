package river

import (
	"strings"

	"github.com/grafana/river/ast"
)

// definitions are the custom components that the blocks of one configuration may use: declared in
// it, imported under a namespace, or defined in the enclosing configuration. It is immutable once
// built, but imports may get new content.
type definitions struct {
	parent   *definitions
	declares map[string]*ast.BlockStmt // by the label of the declare block
	imports  map[string]*importNode    // by the label of the import block
	folder   string                    // folder of that text, see Source
	files    map[string][]byte         // text of the declare blocks, for diagnostics
}

// definition is the body of one declare block and the scope where it was written.
type definition struct {
	body  ast.Body
	scope *definitions // components that the body itself may use
}

// isCustom reports whether blocks whose name starts with word are custom components.
func (d *definitions) isCustom(word string) bool {
	for ; d != nil; d = d.parent {
		if d.declares[word] != nil || d.imports[word] != nil {
			return true
		}
	}
	return false
}

// findDefinition returns the definition for a block name: LABEL of a declare block, or NAMESPACE.LABEL, where
// NAMESPACE is the label of an import block.
func (d *definitions) findDefinition(namespace, name string) (definition, bool) {
	for ; d != nil; d = d.parent {
		if namespace == "" {
			if declare := d.declares[name]; declare != nil {
				return definition{body: declare.Body, scope: d}, true
			}
			continue
		}
		if n := d.imports[namespace]; n != nil {
			imported := n.definitions()
			if declare := imported.declares[name]; declare != nil {
				return definition{body: declare.Body, scope: imported}, true
			}
		}
	}
	return definition{}, false
}

// unseenImport returns the ID of the import of a namespace if a check without a network could not look
// at it, else "".
func (d *definitions) unseenImport(namespace string) string {
	for ; d != nil; d = d.parent {
		if n := d.imports[namespace]; n != nil && n.unseenReason() != "" {
			return n.id()
		}
	}
	return ""
}

// splitCustomName splits the name of a custom component's block.
func splitCustomName(block *ast.BlockStmt) (namespace, name string) {
	first, rest, found := strings.Cut(block.GetBlockName(), ".")
	if !found {
		return "", first
	}
	return first, rest
}
