package server

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/demangle"
)

// shortenNames shortens C++ and Rust names like pprof does for names that it finds itself: without parameters and
// template arguments. In profiles, the names follow the argument demangle; by default they are the names of the symbol
// table.
func shortenNames(p *profile.Profile) {
	for _, f := range p.Function {
		f.Name = demangle.Simplified.Apply(f.Name)
	}
}

// maxShownName bounds the names in a flame graph, in bytes: template arguments can make them very long.
const maxShownName = 1000

// flameName returns a function's name for a flame graph: with template arguments, but without them if the name is too
// long.
func flameName(name string) string {
	if shown := demangle.Templates.Apply(name); len(shown) <= maxShownName {
		return shown
	}
	return demangle.Simplified.Apply(name)
}
