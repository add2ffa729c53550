package flamegraph

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/symbol"
)

// demangle shortens C++ and Rust names like pprof does for names that it finds itself: without parameters and template
// arguments. In profiles, the names follow the argument demangle; by default they are the names of the symbol table.
func demangle(p *profile.Profile) {
	for _, f := range p.Function {
		f.Name = symbol.DemangleSimplified.Apply(f.Name)
	}
}

// maxShownName bounds the names in a flame graph, in bytes: template arguments can make them very long.
const maxShownName = 1000

// flameName returns a function's name for a flame graph: with template arguments, but without them if the name is too
// long.
func flameName(name string) string {
	if shown := symbol.DemangleTemplates.Apply(name); len(shown) <= maxShownName {
		return shown
	}
	return symbol.DemangleSimplified.Apply(name)
}
