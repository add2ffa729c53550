package source

import (
	"bytes"
	"fmt"
	"io"

	"github.com/grafana/river/ast"
	"github.com/grafana/river/diag"
	"github.com/grafana/river/token"

	"github.com/headwater/headwater/component/common/config"
)

// LoadError contains the problems of a configuration.
type LoadError struct {
	Diagnostics diag.Diagnostics // at least one, in the order of the text

	// Applied is true if the configuration runs anyway, except for the blocks named in Diagnostics.
	// Otherwise the previous configuration, if any, keeps running unchanged.
	Applied bool

	// Files are the texts that Diagnostics refer to, by name.
	Files map[string][]byte
}

// Error returns the first diagnostic and the number of diagnostics.
func (e *LoadError) Error() string { return e.Diagnostics.Error() }

// Unwrap returns the diagnostics.
func (e *LoadError) Unwrap() error { return e.Diagnostics }

// Consequence returns a short description of the configuration that runs after a failed load.
func (e *LoadError) Consequence() string {
	if e.Applied {
		return "the new configuration runs, except for the named blocks"
	}
	return "the previous configuration keeps running"
}

// Fprint writes every diagnostic with the lines of text around it. It removes the passwords of
// URLs.
func (e *LoadError) Fprint(w io.Writer, color bool) error {
	printer := diag.NewPrinter(diag.PrinterConfig{Color: color, ContextLinesBefore: 1, ContextLinesAfter: 1})
	var text bytes.Buffer
	if err := printer.Fprint(&text, e.Files, e.Diagnostics); err != nil {
		return err
	}
	_, err := w.Write(config.HidePasswords(text.Bytes()))
	return err
}

// UnseenError says that a check without a network cannot look at something. It is no mistake.
type UnseenError struct{ Reason string }

// Error returns the reason.
func (e *UnseenError) Error() string { return e.Reason }

// ErrorAt returns an error for a whole AST node.
func ErrorAt(n ast.Node, format string, args ...interface{}) diag.Diagnostic {
	return ErrorBetween(ast.StartPos(n), ast.EndPos(n), format, args...)
}

// ErrorAtName returns an error for the first length characters of a block, its name.
func ErrorAtName(block *ast.BlockStmt, length int, format string, args ...interface{}) diag.Diagnostic {
	return ErrorBetween(block.NamePos, block.NamePos.Add(length-1), format, args...)
}

// ErrorBetween returns an error for the text from start to end.
func ErrorBetween(start, end token.Pos, format string, args ...interface{}) diag.Diagnostic {
	return diag.Diagnostic{
		Severity: diag.SeverityLevelError,
		StartPos: start.Position(),
		EndPos:   end.Position(),
		Message:  fmt.Sprintf(format, args...),
	}
}
