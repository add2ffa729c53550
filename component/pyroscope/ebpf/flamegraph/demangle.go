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
