package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// BuildID returns the GNU build ID of a file as readelf prints it.
func BuildID(t testing.TB, path string) string {
	t.Helper()
	need.Tools(t, "readelf")
	out, err := exec.Command("readelf", "--notes", "--wide", path).Output()
	if err != nil {
		t.Fatalf("readelf %s: %v", path, err)
	}
	match := regexp.MustCompile(`Build ID: ([0-9a-f]+)`).FindSubmatch(out)
	if match == nil {
		t.Fatalf("readelf finds no build ID in %s", path)
	}
	return string(match[1])
}

// Symbol is a line of nm.
type Symbol struct {
	Start, End uint64
	Name       string
}

// SymbolTable returns the functions in a file's symbol table, in its dynamic table and in its separate debug file if
// there is one, as nm prints them.
func SymbolTable(t testing.TB, module, buildID string) []Symbol {
	t.Helper()
	need.Tools(t, "nm")
	var table []Symbol
	read := func(args ...string) {
		// nm fails on a file without such a table, which is not an error here.
		out, _ := exec.Command("nm", append([]string{"--defined-only", "--print-size"}, args...)...).Output()
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			if len(fields) != 4 || !strings.Contains("tTwWiI", fields[2]) {
				continue
			}
			start, err1 := strconv.ParseUint(fields[0], 16, 64)
			size, err2 := strconv.ParseUint(fields[1], 16, 64)
			if err1 != nil || err2 != nil {
				t.Fatalf("nm %s: %q", module, line)
			}
			name, _, _ := strings.Cut(fields[3], "@")
			table = append(table, Symbol{start, start + size, name})
		}
	}
	read(module)
	read("--dynamic", module)
	if len(buildID) > 2 {
		debugFile := filepath.Join("/usr/lib/debug/.build-id", buildID[:2], buildID[2:]+".debug")
		if _, err := os.Stat(debugFile); err == nil {
			read(debugFile)
		}
	}
	return table
}

// entryLine is an FDE as readelf prints it.
var entryLine = regexp.MustCompile(`(?m)^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)`)

// FrameEntries returns the functions of a file that have call frame information, without names, as readelf
// prints them.
func FrameEntries(t testing.TB, path string) (entries []Symbol) {
	t.Helper()
	need.Tools(t, "readelf")
	out, err := exec.Command("readelf", "-W", "--debug-dump=frames", "--debug-dump=no-follow-links", path).Output()
	if err != nil {
		t.Fatalf("readelf %s: %v", path, err)
	}
	for _, m := range entryLine.FindAllSubmatch(out, -1) {
		start, err1 := strconv.ParseUint(string(m[1]), 16, 64)
		end, err2 := strconv.ParseUint(string(m[2]), 16, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("readelf %s: %q", path, m[0])
		}
		entries = append(entries, Symbol{Start: start, End: end})
	}
	return entries
}

// SymbolLabels returns the names that a profile may use for an address in a file: any alias of the function at the
// address. If the table has no function there, found is false, and the names consist of the file and an address: the
// start of the function according to its entry of call frame information, or, without an entry, the call or the return
// address after it.
func SymbolLabels(table, entries []Symbol, path string, vaddr uint64) (names []string, found bool) {
	for _, s := range table {
		if s.Start <= vaddr && vaddr < s.End {
			names = append(names, s.Name)
			if whole, _, part := strings.Cut(s.Name, "."); part { // f.cold, which DWARF data calls f
				names = append(names, whole)
			}
		}
	}
	if len(names) > 0 {
		return names, true
	}
	base := filepath.Base(path)
	for _, e := range entries {
		if e.Start <= vaddr && vaddr < e.End {
			return []string{fmt.Sprintf("%s+0x%x", base, e.Start)}, false
		}
	}
	return []string{fmt.Sprintf("%s+0x%x", base, vaddr), fmt.Sprintf("%s+0x%x", base, vaddr+1)}, false
}
