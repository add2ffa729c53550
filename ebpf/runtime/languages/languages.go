// Package languages is the table of the language runtimes that the profiler knows.
package languages

import (
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/runtime/cpython"
	"github.com/headwater/headwater/ebpf/runtime/jvm"
	"github.com/headwater/headwater/ebpf/runtime/unnamed"
	"github.com/headwater/headwater/ebpf/runtime/v8"
)

// All returns the languages. One file is a runtime of the first that detects it.
func All() []runtime.Language {
	return []runtime.Language{
		jvm.New(),
		cpython.Language{},
		v8.New(),
		unnamed.Language{},
	}
}
