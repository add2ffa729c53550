package trie

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Kind says what a frame is of.
type Kind uint8

// The kinds of frames.
const (
	Other   Kind = iota // no code: the name of a process, the value of a label
	Kernel              // Linux and its modules
	Native              // a function of a file
	Inlined             // a function of a file, inlined into its caller
	Runtime             // a function that a language runtime runs, such as CPython or V8
	JIT                 // code that a just-in-time compiler made
	Unnamed             // code whose function is not known, and stacks that end early
	Small               // some frames that are too small to show
	kinds   = iota
)

// String returns the kind's name in a Tree.
func (k Kind) String() string {
	return [kinds]string{"other", "kernel", "native", "inlined", "runtime", "jit", "unnamed", "small"}[k]
}

func kindNames() (names []string) {
	for k := range Kind(kinds) {
		names = append(names, k.String())
	}
	return names
}

// unnamed matches what stands for a function without a name: binary+0xoffset, an address,
// and remarks such as [unknown].
var unnamed = regexp.MustCompile(`^(\[(unknown|(?:incomplete|guessed)\b.*)\]|(.*\+)?0x[0-9a-f]+)$`)

// isUnnamed matches unnamed, at once for almost all names.
func isUnnamed(function string) bool {
	return (function[0] == '[' || strings.Contains(function, "0x")) && unnamed.MatchString(function)
}

// KindOf returns the kind of a function in a mapping, nil or without a file for none.
func KindOf(m *profile.Mapping, function string, inlined bool) Kind {
	if function == "" || isUnnamed(function) {
		return Unnamed
	}
	if m == nil || m.File == "" {
		return Other
	}
	switch kind := kindOfFile(m.File); {
	case kind == Native && inlined:
		return Inlined
	default:
		return kind
	}
}

// kindOfFile returns the kind of named functions in a mapping of that name.
func kindOfFile(file string) Kind {
	base := path.Base(file)
	switch {
	case hasAnyPrefix(file, "[kernel", "[guest.kernel", "[bpf", "[module", "[vmlinux") || base == "vmlinux":
		return Kernel
	case hasAnyPrefix(file, "[vdso", "[vsyscall", "[uprobes"):
		return Native
	case hasAnyPrefix(file, "[jit", "[hotspot", "[anon", "[heap", "[stack", "[unknown", "//anon"),
		strings.HasPrefix(base, "perf-") && strings.HasSuffix(base, ".map"):
		return JIT
	case strings.HasPrefix(file, "["):
		return Runtime
	default:
		return Native
	}
}

// RuntimeCode stands for the mappings of a language runtime's functions, see CodeOf.
const RuntimeCode = "[runtime]"

// CodeOf returns what a mapping of that name has the code of: RuntimeCode for functions of a language runtime, which
// interprets some calls of a function and compiles it for others ("[java 17]", "[jit]"), and else the name.
func CodeOf(file string) string {
	if kind := kindOfFile(file); kind == JIT || kind == Runtime {
		return RuntimeCode
	}
	return file
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// AddressName names code of which only the address is known: the name of its file and the offset there, such as
// libc.so.6+0x1f0, or the address if it is in no file.
func AddressName(l *profile.Location) string {
	if l.Mapping == nil || l.Mapping.File == "" {
		return "0x" + strconv.FormatUint(l.Address, 16)
	}
	offset := l.Address
	if offset >= l.Mapping.Start {
		offset += l.Mapping.Offset - l.Mapping.Start
	}
	return path.Base(l.Mapping.File) + "+0x" + strconv.FormatUint(offset, 16)
}
