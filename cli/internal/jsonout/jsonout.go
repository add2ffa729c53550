// Package jsonout writes the JSON output of commands.
package jsonout

import (
	"encoding/json"
	"io"
)

// Write writes a value as JSON, indented by two spaces, with a line feed at the end.
func Write(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
