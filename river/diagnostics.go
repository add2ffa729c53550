package river

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river/internal/source"
)

// evaluationDiagnostics explains why a block failed to evaluate, as close to the cause as the error
// allows.
func evaluationDiagnostics(block *ast.BlockStmt, what string, err error) diag.Diagnostics {
	diags := firstDiagnostics(block, what, err)
	var body *bodyError
	if errors.As(err, &body) {
		diags = append(diags, located(block, body.others)...)
	}
	return diags
}

// located returns diagnostics in which those without a position get the position of block.
func located(block *ast.BlockStmt, diags diag.Diagnostics) diag.Diagnostics {
	diags = slices.Clone(diags)
	for i := range diags {
		if !diags[i].StartPos.Valid() {
			diags[i].StartPos = ast.StartPos(block).Position()
			diags[i].EndPos = ast.EndPos(block).Position()
		}
		diags[i].Message = withUnit(diags[i].Message)
	}
	return diags
}

// withUnit replaces the message of time.ParseDuration about a duration in bare seconds by one with
// the correct spelling.
func withUnit(message string) string {
	_, quoted, _ := strings.Cut(message, "time: missing unit in duration ")
	number, err := strconv.Unquote(quoted)
	if err != nil {
		return message
	}
	return fmt.Sprintf("a duration needs a unit: \"%ss\" for seconds, got %s", number, number)
}

// firstDiagnostics explains the error that ended a block's evaluation.
func firstDiagnostics(block *ast.BlockStmt, what string, err error) diag.Diagnostics {
	var diags diag.Diagnostics
	if errors.As(err, &diags) {
		return located(block, diags)
	}
	var attribute *component.AttributeError
	if errors.As(err, &attribute) {
		if stmt := findAttribute(block.Body, strings.Split(attribute.Attribute, ".")); stmt != nil {
			return diag.Diagnostics{source.ErrorAt(stmt, "%s", attribute)}
		}
	}
	return diag.Diagnostics{source.ErrorAt(block, "%s: %s", what, err)}
}

// findAttribute returns the first attribute with that path (names of blocks, then the attribute's
// name), or nil.
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

// sortDiagnostics sorts diagnostics by their position. Diagnostics without a position come last.
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
