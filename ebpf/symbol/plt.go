package symbol

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// heldNames is a pool of names in memory, each followed by a NUL.
type heldNames string

func (h heldNames) nameAt(place uint32) (string, bool) {
	rest := h[place:]
	return strings.Clone(string(rest[:strings.IndexByte(string(rest), 0)])), true
}

func (h heldNames) bytes() int { return len(h) }

// stubs names the stubs of a file's procedure linkage table like objdump, "memcpy@plt"; it returns nil if there are
// none. resolver names the functions that choose an implementation at run time; they name the stubs without a symbol.
func stubs(file *elffile.File, resolver func(at uint64) []Frame) (source, error) {
	all, err := file.Stubs()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	base := slices.MinFunc(all, func(a, b elffile.Stub) int {
		if a.Value < b.Value {
			return -1
		}
		return 1
	}).Value
	var names strings.Builder
	entries := make([]entry, 0, len(all))
	for _, s := range all {
		if s.Value-base >= window {
			continue
		}
		entries = append(entries, entry{start: uint32(s.Value - base), size: uint32(s.Size), name: uint32(names.Len())})
		names.WriteString(validUTF8(stubName(s, resolver)))
		names.WriteString("@plt\x00")
	}
	return newTable(base, entries, heldNames(names.String())), nil
}

func stubName(s elffile.Stub, resolver func(at uint64) []Frame) string {
	if s.Name != "" {
		return withoutVersion(s.Name)
	}
	if frames := resolver(s.Resolver); len(frames) > 0 {
		return frames[len(frames)-1].Function
	}
	return fmt.Sprintf("*ABS*+%#x", s.Resolver)
}
