package walks

import (
	"encoding/json"
	"os"
)

// WriteReport writes a report to a file as JSON, if path names one.
func WriteReport(path string, report any) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
