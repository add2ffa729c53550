package symbol

import (
	"fmt"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// DemangleMode says how C++ and Rust names, and those of Java's hidden classes, are shown. The modes are those of
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

// ParseDemangle returns the mode with that River name.
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

// Limits on names: demangled ones can grow exponentially with the mangled one.
const (
	maxMangled   = 16 << 10
	maxDemangled = 16 // a power of two
)

// Apply returns name as the mode shows it. What is not a mangled name of C++ or
// Rust, or a malformed one, comes back as it is, at next to no cost. Rust's
// hashes are removed, and so are the suffixes of clones (".cold", ".isra.0").
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

// withoutEmptyArguments removes the brackets that the demangler leaves where it
// left out the generic arguments of a name in Rust's v0 scheme.
func withoutEmptyArguments(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "::<>", ""), "<>", "")
}

// demangleName calls the demangler, which names from foreign files must not
// bring down.
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

// mangled reports whether a name may be mangled: by the Itanium C++ ABI or
// Rust's legacy scheme (_Z, and __Z as Mach-O has it), or by Rust's v0 (_R).
func mangled(name string) bool {
	if len(name) < 3 || name[0] != '_' {
		return false
	}
	return name[1] == 'Z' || name[1] == 'R' || (name[1] == '_' && name[2] == 'Z')
}
