// Package all is the table of the language runtimes that the profiler supports.
package all

import (
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/cpython"
	"github.com/headwater/headwater/ebpf/language/jvm"
	"github.com/headwater/headwater/ebpf/language/unnamed"
	"github.com/headwater/headwater/ebpf/language/v8"
)

// All returns the languages. If several languages detect a file, the first one is used.
func All() []language.Language {
	return []language.Language{
		jvm.New(),
		cpython.Language{},
		v8.New(),
		unnamed.Language{},
	}
}
