// Package languages is the table of the language runtimes that the profiler supports.
package languages

import (
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/runtime/cpython"
	"github.com/headwater/headwater/ebpf/runtime/jvm"
	"github.com/headwater/headwater/ebpf/runtime/unnamed"
	"github.com/headwater/headwater/ebpf/runtime/v8"
)

// All returns the languages. If several languages detect a file, the first one is used.
func All() []runtime.Language {
	return []runtime.Language{
		jvm.New(),
		cpython.Language{},
		v8.New(),
		unnamed.Language{},
	}
}
