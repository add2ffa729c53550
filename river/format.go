package river

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/grafana/river/diag"
	"github.com/grafana/river/parser"
	"github.com/grafana/river/printer"
)

// Format returns River text in its standard form, with a newline at its end. The error is a
// *LoadError if the text cannot be parsed. name is the file name in the error.
func Format(name string, text []byte) ([]byte, error) {
	file, err := parser.ParseFile(name, text)
	var diags diag.Diagnostics
	if errors.As(err, &diags) {
		return nil, &LoadError{Diagnostics: diags, Files: map[string][]byte{name: text}}
	}
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	var formatted bytes.Buffer
	if err := printer.Fprint(&formatted, file); err != nil {
		return nil, fmt.Errorf("formatting %s: %w", name, err)
	}
	formatted.WriteByte('\n')
	return formatted.Bytes(), nil
}
