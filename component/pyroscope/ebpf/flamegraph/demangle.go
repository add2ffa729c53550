package flamegraph

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/symbol"
)

// demangle shows names of C++ and Rust as pprof shows those that it finds itself: without parameters and template
// arguments. Profiles have them as the argument demangle says, by default as in the symbol table.
func demangle(p *profile.Profile) {
	for _, f := range p.Function {
		f.Name = symbol.DemangleSimplified.Apply(f.Name)
	}
}

// maxShownName bounds the names of a flame graph, which template arguments make long.
const maxShownName = 1000

// flameName is what a flame graph calls a function: with template arguments, which it leaves out
// where space is short.
func flameName(name string) string {
	if shown := symbol.DemangleTemplates.Apply(name); len(shown) <= maxShownName {
		return shown
	}
	return symbol.DemangleSimplified.Apply(name)
}
