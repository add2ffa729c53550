// Package demangle shows names of C++, Rust and Java as people write them.
package demangle

import (
	"fmt"
	"strings"

	itanium "github.com/ianlancetaylor/demangle"
)

// Mode is how C++ and Rust names, and names of Java's hidden classes, are shown. The modes are the modes of
// pyroscope.ebpf in Grafana Agent and Alloy.
type Mode uint8

// The modes, by their River names.
const (
	None       Mode = iota // "none": as in the symbol table
	Simplified             // "simplified": without parameters and template arguments
	Templates              // "templates": without parameters
	Full                   // "full": with both
	modes      = iota
)

func modeNames() [modes]string {
	return [modes]string{"none", "simplified", "templates", "full"}
}

// Parse returns the mode with a River name.
func Parse(name string) (Mode, error) {
	names := modeNames()
	for i, n := range names {
		if n == name {
			return Mode(i), nil
		}
	}
	return None, fmt.Errorf("invalid demangle mode %q, valid values are: %s", name,
		strings.Join(names[:], ", "))
}

// String returns the mode's River name.
func (m Mode) String() string {
	names := modeNames()
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("demangle_mode_%d", uint8(m))
}

// Limits on names: a demangled name can be exponentially longer than the mangled name.
const (
	maxMangled   = 16 << 10
	maxDemangled = 16 // a power of two
)

// Apply returns name in the form of the mode. A name that is not a mangled name of C++ or Rust, or is malformed, is
// returned unchanged, at almost no cost. Rust's hashes are removed, and so are the suffixes of clones (".cold",
// ".isra.0").
func (m Mode) Apply(name string) string {
	if m == None || !IsMangled(name) || len(name) > maxMangled {
		return name
	}
	shown, err := demangleName(name, m.options())
	if err != nil || shown == "" {
		return name
	}
	if m == Simplified && strings.HasPrefix(name, "_R") {
		shown = withoutEmptyArguments(shown)
	}
	return strings.ToValidUTF8(shown, "\uFFFD")
}

// withoutEmptyArguments removes the brackets that remain where the demangler omits the generic arguments of a name in
// Rust's v0 scheme.
func withoutEmptyArguments(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "::<>", ""), "<>", "")
}

// demangleName calls the demangler, and recovers from a panic caused by a name of a foreign file.
func demangleName(name string, options []itanium.Option) (shown string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("demangle %q: %v", name, p)
		}
	}()
	return itanium.ToString(name, options...)
}

func (m Mode) options() []itanium.Option {
	limit := itanium.MaxLength(maxDemangled)
	switch m {
	case Simplified:
		return []itanium.Option{itanium.NoParams, itanium.NoEnclosingParams, itanium.NoTemplateParams, limit}
	case Templates:
		return []itanium.Option{itanium.NoParams, itanium.NoEnclosingParams, limit}
	}
	return []itanium.Option{itanium.NoClones, limit}
}

// IsMangled reports whether a name may be mangled: by the Itanium C++ ABI or Rust's legacy scheme (_Z, and __Z in
// Mach-O), or by Rust's v0 scheme (_R).
func IsMangled(name string) bool {
	if len(name) < 3 || name[0] != '_' {
		return false
	}
	return name[1] == 'Z' || name[1] == 'R' || (name[1] == '_' && name[2] == 'Z')
}
