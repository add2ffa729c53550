package symbol

import (
	"fmt"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// DemangleMode is how C++ and Rust names, and names of Java's hidden classes, are shown. The modes are the modes of
// pyroscope.ebpf in Grafana Agent and Alloy.
type DemangleMode uint8

// The modes, by their River names.
const (
	DemangleNone       DemangleMode = iota // "none": as in the symbol table
	DemangleSimplified                     // "simplified": without parameters and template arguments
	DemangleTemplates                      // "templates": without parameters
	DemangleFull                           // "full": with both
	demangleModes      = iota
)

func demangleNames() [demangleModes]string {
	return [demangleModes]string{"none", "simplified", "templates", "full"}
}

// ParseDemangle returns the mode with a River name.
func ParseDemangle(name string) (DemangleMode, error) {
	names := demangleNames()
	for i, n := range names {
		if n == name {
			return DemangleMode(i), nil
		}
	}
	return DemangleNone, fmt.Errorf("invalid demangle mode %q, valid values are: %s", name,
		strings.Join(names[:], ", "))
}

// String returns the mode's River name.
func (m DemangleMode) String() string {
	names := demangleNames()
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
func (m DemangleMode) Apply(name string) string {
	if m == DemangleNone || !mangled(name) || len(name) > maxMangled {
		return name
	}
	shown, err := demangleName(name, m.options())
	if err != nil || shown == "" {
		return name
	}
	if m == DemangleSimplified && strings.HasPrefix(name, "_R") {
		shown = withoutEmptyArguments(shown)
	}
	return validUTF8(shown)
}

// withoutEmptyArguments removes the brackets that remain where the demangler omits the generic arguments of a name in
// Rust's v0 scheme.
func withoutEmptyArguments(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "::<>", ""), "<>", "")
}

// demangleName calls the demangler, and recovers from a panic caused by a name of a foreign file.
func demangleName(name string, options []demangle.Option) (shown string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("demangle %q: %v", name, p)
		}
	}()
	return demangle.ToString(name, options...)
}

func (m DemangleMode) options() []demangle.Option {
	limit := demangle.MaxLength(maxDemangled)
	switch m {
	case DemangleSimplified:
		return []demangle.Option{demangle.NoParams, demangle.NoEnclosingParams, demangle.NoTemplateParams, limit}
	case DemangleTemplates:
		return []demangle.Option{demangle.NoParams, demangle.NoEnclosingParams, limit}
	}
	return []demangle.Option{demangle.NoClones, limit}
}

// mangled reports whether a name may be mangled: by the Itanium C++ ABI or Rust's legacy scheme (_Z, and __Z in
// Mach-O), or by Rust's v0 scheme (_R).
func mangled(name string) bool {
	if len(name) < 3 || name[0] != '_' {
		return false
	}
	return name[1] == 'Z' || name[1] == 'R' || (name[1] == '_' && name[2] == 'Z')
}
