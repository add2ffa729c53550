package tree

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// Kind is the kind of code that a frame runs.
type Kind uint8

// The kinds of frames.
const (
	Other   Kind = iota // no code, such as the name of a process or the value of a label
	Kernel              // the Linux kernel and its modules
	Native              // a function of a file, not inlined
	Inlined             // a function of a file, inlined into its caller
	Runtime             // a function that a language runtime runs, such as CPython or V8
	JIT                 // code that a just-in-time compiler made
	Unnamed             // code whose function is not known, and stacks that end early
	Small               // frames that are too small to show
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

// unnamed matches the placeholders of functions without a name: binary+0xoffset, an address, and remarks such as
// [unknown].
var unnamed = regexp.MustCompile(`^(\[(unknown|(?:incomplete|guessed)\b.*)\]|(.*\+)?0x[0-9a-f]+)$`)

// remark matches the remarks at the ends of stacks whose callers are missing.
var remark = regexp.MustCompile(`^\[(?:incomplete|guessed): .*\]$`)

// IsRemark reports whether a function is a remark at the end of a stack, such as [incomplete: no_row].
func IsRemark(function string) bool {
	return strings.HasPrefix(function, "[") && remark.MatchString(function)
}

// isUnnamed reports whether function matches unnamed. For almost all names it does not run the regular expression.
func isUnnamed(function string) bool {
	return (function[0] == '[' || strings.Contains(function, "0x")) && unnamed.MatchString(function)
}

// KindOf returns the kind of a function in a mapping. m is nil, or has no file, if the function is in no mapping.
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

// kindOfFile returns the kind of the named functions in a mapping with the given file name.
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

// RuntimeCode stands for all mappings with functions of a language runtime; see CodeOf.
const RuntimeCode = "[runtime]"

// CodeOf returns RuntimeCode for a mapping with functions of a language runtime, which interprets some calls of a
// function and compiles it for other calls ("[java 17]", "[jit]"). For any other mapping it returns the file name.
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

// AddressName returns a name for code with only an address: the name of its file and the offset in it, such as
// libc.so.6+0x1f0, or the address if the code is in no file.
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
