package river

import "github.com/headwater/headwater/river/internal/source"

// Source is the text of a configuration, in one or more files, and its blocks. It must not be
// changed once it is loaded.
type Source = source.Source

// LoadError contains the problems of a configuration, and prints them with the text around them.
type LoadError = source.LoadError

// ReadSource reads and parses the file at path. If path is a folder, it reads all files directly in
// it that end in .river or .alloy as one configuration. Parse errors are returned as a *LoadError.
func ReadSource(path string) (*Source, error) { return source.Read(path) }

// Parse parses files, keyed by name, as one configuration. The names appear in diagnostics. Parse
// errors of all files are returned as one *LoadError.
func Parse(files map[string][]byte) (*Source, error) { return source.Parse(files) }
