package ehtest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// Row is one line of readelf's table. The cells are readelf's text: "rsp+8", "c-16", "u", "s",
// "exp", "r8".
type Row struct {
	Loc   uint64
	Cells []string // one for each of the FDE's Columns
}

// FDE is readelf's table of one FDE. If several rows have the same location, only the last is kept,
// because it is the one that applies.
type FDE struct {
	Offset, Start, End uint64
	Columns            []string // "CFA", register names, "ra"
	Rows               []Row
}

// Cell returns the cell of r in a column, "" if there is no such column.
func (f *FDE) Cell(r Row, column string) string {
	for i, c := range f.Columns {
		if c == column {
			return r.Cells[i]
		}
	}
	return ""
}

// Files returns the existing files of a list of system executables, and fails the test if there are
// none.
func Files(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, path := range []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib/x86_64-linux-gnu/libgcc_s.so.1", "/bin/bash", "/usr/bin/fio",
	} {
		if _, err := os.Stat(path); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		need.Missing(t, "this is no x86-64 Debian system")
	}
	return found
}

// LargeFiles returns executables whose tables take long to compare: a map from their names to their
// paths, "" if the file does not exist. It skips the test unless HEADWATER_LARGE=1 is set.
func LargeFiles(t testing.TB) map[string]string {
	t.Helper()
	home, _ := os.UserHomeDir()
	return optional(t, map[string]string{
		"libLLVM-14":      "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
		"libLLVM-19":      "/usr/lib/x86_64-linux-gnu/libLLVM.so.19*",
		"libclang-cpp-19": "/usr/lib/x86_64-linux-gnu/libclang-cpp.so.19*",
		"node":            "/usr/bin/node", "chromium": "/usr/lib/chromium/chromium",
		"cc1":             "/usr/lib/gcc/x86_64-linux-gnu/*/cc1",
		"librustc_driver": filepath.Join(home, ".rustup/toolchains/stable-*/lib/librustc_driver-*.so"),
		"gdb":             "/usr/bin/gdb", "python3": "/usr/bin/python3", "redis-server": "/usr/bin/redis-server",
		"qemu-system-x86_64": "/usr/bin/qemu-system-x86_64", "perl": "/usr/bin/perl",
		"ld.so": "/lib64/ld-linux-x86-64.so.2",
	})
}

// AArch64Files is LargeFiles for the arm64 files of cross compilers.
func AArch64Files(t testing.TB) map[string]string {
	t.Helper()
	const dir = "/usr/aarch64-linux-gnu/lib/"
	return optional(t, map[string]string{
		"libc": dir + "libc.so.6", "libstdc++": dir + "libstdc++.so.6", "libm": dir + "libm.so.6",
		"ld.so": dir + "ld-linux-aarch64.so.1", "libgcc": dir + "libgcc_s.so.1",
	})
}

// optional returns the first path that matches each pattern, "" if there is none.
func optional(t testing.TB, patterns map[string]string) map[string]string {
	t.Helper()
	if os.Getenv("HEADWATER_LARGE") != "1" {
		t.Skip("HEADWATER_LARGE=1 compares libLLVM, node, chromium, rustc's driver and others, too: " +
			"make -C integration large")
	}
	found := make(map[string]string)
	for name, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		found[name] = strings.Join(paths[:min(1, len(paths))], "")
	}
	return found
}

var fdeLine = regexp.MustCompile(`^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)`)

// registerCell matches a register rule, "r8 (r8)". Only the name is kept.
var registerCell = regexp.MustCompile(`\br[0-9]+ \(([a-z0-9]+)\)`)

// Interp returns the FDEs that `readelf --debug-dump=frames-interp` prints for a section of the
// file.
func Interp(t testing.TB, path, section string) []FDE {
	t.Helper()
	var fdes []FDE
	EachFDE(t, path, section, func(f *FDE) { fdes = append(fdes, *f) })
	return fdes
}

// EachFDE calls yield for every FDE that Interp returns, without holding all FDEs in memory. It
// fails the test if there are none.
func EachFDE(t testing.TB, path, section string, yield func(*FDE)) {
	t.Helper()
	need.Tools(t, "readelf")
	cmd := exec.Command("readelf", "-W", "--debug-dump=frames-interp", "--debug-dump=no-follow-links", path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("readelf %s: %v", path, err)
	}
	p := interp{t: t, section: section, yield: yield}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.parseLine(lines.Text())
	}
	p.endEntry()
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Fatalf("readelf %s: %v", path, err)
	}
	if p.count == 0 {
		t.Fatalf("readelf shows no FDE of %s in %s", section, path)
	}
}

// interp parses readelf's lines.
type interp struct {
	t         testing.TB
	section   string
	yield     func(*FDE)
	inSection bool
	fde       *FDE // current FDE
	columns   []string
	digits    int // of an address: 16, or 8 in a 32-bit file
	count     int
}

func (p *interp) parseLine(line string) {
	if strings.HasPrefix(line, "Contents of the ") {
		p.endEntry()
		p.inSection = strings.Fields(line)[3] == p.section
		return
	}
	if !p.inSection {
		return
	}
	if strings.Contains(line, "(") {
		line = registerCell.ReplaceAllString(line, "$1")
	}
	fields := strings.Fields(line)
	switch {
	case len(fields) > 3 && fields[3] == "FDE":
		p.endEntry()
		if m := fdeLine.FindStringSubmatch(line); m != nil {
			p.digits = len(m[2])
			p.fde = &FDE{Offset: parseHex(p.t, m[1]), Start: parseHex(p.t, m[2]), End: parseHex(p.t, m[3])}
		}
	case len(fields) > 3 && fields[3] == "CIE":
		p.endEntry()
	case len(fields) > 0 && fields[0] == "LOC":
		p.columns = fields[1:]
	case p.fde != nil && len(fields) == len(p.columns)+1 && len(fields[0]) == p.digits && fields[1] != "ZERO":
		p.fde.addRow(p.columns, Row{parseHex(p.t, fields[0]), fields[1:]})
	}
}

// endEntry yields the current FDE.
func (p *interp) endEntry() {
	if p.fde != nil {
		p.count++
		p.yield(p.fde)
	}
	p.fde = nil
}

func (f *FDE) addRow(columns []string, r Row) {
	f.Columns = columns
	if n := len(f.Rows); n > 0 && f.Rows[n-1].Loc == r.Loc {
		f.Rows[n-1] = r
		return
	}
	f.Rows = append(f.Rows, r)
}

func parseHex(t testing.TB, s string) uint64 {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatalf("readelf: %v", err)
	}
	return v
}
