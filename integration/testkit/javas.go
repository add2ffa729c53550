package testkit

import (
	"os"
	"path/filepath"
)

// Javas are the programs java to test with: Debian's, and those that the environment variable HEADWATER_JAVAS lists, as
// paths.
func Javas() []string {
	return append([]string{"java"}, filepath.SplitList(os.Getenv("HEADWATER_JAVAS"))...)
}
