package river

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/token"

	"github.com/headwater/headwater/component"
)

// LoadError says what is wrong with a configuration.
type LoadError struct {
	Diagnostics diag.Diagnostics // at least one, in the order of the text

	// Applied is true if the configuration is in force all the same, except for
	// the blocks named in Diagnostics. Otherwise the previous configuration, if
	// there was one, keeps running unchanged.
	Applied bool

	files map[string][]byte
}

// Error returns the first diagnostic and how many there are.
func (e *LoadError) Error() string { return e.Diagnostics.Error() }

// Unwrap returns the diagnostics.
func (e *LoadError) Unwrap() error { return e.Diagnostics }

// Consequence says in a few words what runs after the failed load of a new
// configuration.
func (e *LoadError) Consequence() string {
	if e.Applied {
		return "the new configuration runs, but for the blocks named"
	}
	return "the previous configuration keeps running"
}

// Fprint writes every diagnostic with the lines of text that it is about.
func (e *LoadError) Fprint(w io.Writer, color bool) error {
	printer := diag.NewPrinter(diag.PrinterConfig{Color: color, ContextLinesBefore: 1, ContextLinesAfter: 1})
	return printer.Fprint(w, e.files, e.Diagnostics)
}

// errorAt returns an error about the whole of an AST node.
func errorAt(n ast.Node, format string, args ...interface{}) diag.Diagnostic {
	return errorBetween(ast.StartPos(n), ast.EndPos(n), format, args...)
}

// errorAtName returns an error about the first length characters of a block,
// its name.
func errorAtName(block *ast.BlockStmt, length int, format string, args ...interface{}) diag.Diagnostic {
	return errorBetween(block.NamePos, block.NamePos.Add(length-1), format, args...)
}

func errorBetween(start, end token.Pos, format string, args ...interface{}) diag.Diagnostic {
	return diag.Diagnostic{
		Severity: diag.SeverityLevelError,
		StartPos: start.Position(),
		EndPos:   end.Position(),
		Message:  fmt.Sprintf(format, args...),
	}
}

// evaluationDiagnostics explains why a block could not be evaluated, as close to
// the cause as the error allows.
func evaluationDiagnostics(block *ast.BlockStmt, what string, err error) diag.Diagnostics {
	var diags diag.Diagnostics
	if errors.As(err, &diags) {
		located := append(diag.Diagnostics(nil), diags...)
		for i := range located {
			if !located[i].StartPos.Valid() {
				located[i].StartPos = ast.StartPos(block).Position()
				located[i].EndPos = ast.EndPos(block).Position()
			}
		}
		return located
	}
	var attribute *component.AttributeError
	if errors.As(err, &attribute) {
		if stmt := findAttribute(block.Body, strings.Split(attribute.Attribute, ".")); stmt != nil {
			return diag.Diagnostics{errorAt(stmt, "%s", attribute)}
		}
	}
	return diag.Diagnostics{errorAt(block, "%s: %s", what, err)}
}

// findAttribute returns the first attribute of that path (names of blocks, then
// the attribute's name), or nil.
func findAttribute(body ast.Body, path []string) *ast.AttributeStmt {
	for _, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.AttributeStmt:
			if len(path) == 1 && stmt.Name.Name == path[0] {
				return stmt
			}
		case *ast.BlockStmt:
			n := len(stmt.Name)
			if n < len(path) && strings.Join(path[:n], ".") == stmt.GetBlockName() {
				if found := findAttribute(stmt.Body, path[n:]); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// sortDiagnostics brings diagnostics into the order of the text; those about no
// place in it come last.
func sortDiagnostics(diags diag.Diagnostics) {
	sort.SliceStable(diags, func(i, j int) bool {
		a, b := diags[i].StartPos, diags[j].StartPos
		switch {
		case a.Valid() != b.Valid():
			return a.Valid()
		case a.Filename != b.Filename:
			return a.Filename < b.Filename
		default:
			return a.Offset < b.Offset
		}
	})
}
