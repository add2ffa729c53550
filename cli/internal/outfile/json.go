package outfile

import (
	"encoding/json"
	"io"
)

// WriteJSON writes a value as JSON, indented by two spaces, with a line feed at the end.
func WriteJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
