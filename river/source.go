package river

import "github.com/headwater/headwater/river/internal/source"

// Source is the text of a configuration, one file or several, and the blocks in it.
// It must not be changed once it is loaded.
type Source = source.Source

// LoadError says what is wrong with a configuration, and prints it with the text that
// it is about.
type LoadError = source.LoadError

// ReadSource reads and parses the file at path, or, if path is a folder, all files
// directly in it that end in .river or .alloy, which count as one configuration.
// Parsing errors come as a *LoadError.
func ReadSource(path string) (*Source, error) { return source.Read(path) }

// Parse parses files, given by name, as one configuration. The names appear in
// diagnostics. What is wrong in any of them comes as a *LoadError.
func Parse(files map[string][]byte) (*Source, error) { return source.Parse(files) }
