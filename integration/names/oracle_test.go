package names

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// place is a function at a line of a file, as addr2line prints it.
type place struct {
	function, file string
	line           int
}

func (p place) String() string { return fmt.Sprintf("%s at %s:%d", p.function, p.file, p.line) }

// placePattern matches file:line as addr2line prints it, or file:line:column as
// elfutils' does. Go's prints :-1 where it knows the function and no line.
var placePattern = regexp.MustCompile(`^(.*?):(\d+|\?|-1)(:\d+)?( \(discriminator.*)?$`)

// addr2line returns what a tool with the options of addr2line says of addresses:
// the innermost function first, then those that it was inlined into.
func addr2line(t testing.TB, tool, file string, addrs []uint64) [][]place {
	t.Helper()
	need.Tools(t, tool)
	cmd := exec.Command(tool, "-a", "-i", "-f", "-e", file)
	cmd.Stdin = strings.NewReader(hexLines(addrs))
	out, err := cmd.Output()
	if err != nil && len(out) == 0 { // eu-addr2line fails for addresses outside all units
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var answers [][]place
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		if strings.HasPrefix(s.Text(), "0x") {
			answers = append(answers, nil)
			continue
		}
		function, _, _ := strings.Cut(s.Text(), " inlined at ") // as elfutils prints
		s.Scan()
		match := placePattern.FindStringSubmatch(s.Text())
		if match == nil || len(answers) == 0 {
			t.Fatalf("%v: cannot understand %q", cmd.Args, s.Text())
		}
		line, _ := strconv.Atoi(match[2])
		last := &answers[len(answers)-1]
		*last = append(*last, place{unlessUnknown(function), unlessUnknown(match[1]), line})
	}
	if len(answers) != len(addrs) {
		t.Fatalf("%v gave %d answers for %d addresses", cmd.Args, len(answers), len(addrs))
	}
	return answers
}

func hexLines(addrs []uint64) string {
	var b strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&b, "%#x\n", a)
	}
	return b.String()
}

// unlessUnknown returns "" for addr2line's placeholder for unknown values.
func unlessUnknown(s string) string {
	if s == "??" {
		return ""
	}
	return s
}

// samePlaces compares files and lines.
func samePlaces(a, b []place) bool {
	return slices.EqualFunc(a, b, func(a, b place) bool {
		ours, theirs := path.Clean(a.file), path.Clean(b.file)
		return a.line == b.line && (ours == theirs || strings.HasSuffix(ours, "/"+theirs))
	})
}

// goAddr2line returns the output of `go tool addr2line`: the function at each address, with the file and line of the
// innermost one.
func goAddr2line(t testing.TB, file string, addrs []uint64) []place {
	t.Helper()
	cmd := exec.Command("go", "tool", "addr2line", file)
	cmd.Stdin = strings.NewReader(hexLines(addrs))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	lines := strings.Split(string(out), "\n")
	var answers []place
	for i := range addrs {
		match := placePattern.FindStringSubmatch(lines[2*i+1])
		if match == nil {
			t.Fatalf("%v: cannot understand %q", cmd.Args, lines[2*i+1])
		}
		line, _ := strconv.Atoi(match[2])
		answers = append(answers, place{goName(lines[2*i]), match[1], max(line, 0)})
	}
	return answers
}

var goTypeArguments = regexp.MustCompile(`\[.*\]`)

// goName removes what Go's tools write in different ways: type arguments, ABI.
func goName(name string) string {
	name = strings.TrimSuffix(strings.ReplaceAll(name, "·", "."), ".abi0")
	return goTypeArguments.ReplaceAllString(name, "[...]")
}

// kernelFunctions are the lines of /proc/kallsyms, by address.
type kernelFunctions []rig.Symbol

func readKallsyms(t testing.TB) kernelFunctions {
	t.Helper()
	var all kernelFunctions
	for line := range strings.Lines(rig.ReadFile(t, "/proc/kallsyms")) {
		fields := strings.Fields(line)
		start, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatalf("/proc/kallsyms: %q", line)
		}
		if strings.Contains("tTwW", fields[1]) {
			all = append(all, rig.Symbol{Start: start, Name: fields[2]})
		}
	}
	slices.SortStableFunc(all, func(a, b rig.Symbol) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// names returns the names of the function that an address is in.
func (k kernelFunctions) names(addr uint64) (names []string) {
	i := sort.Search(len(k), func(i int) bool { return k[i].Start > addr }) - 1
	for ; i >= 0; i-- {
		if names = append(names, k[i].Name); i == 0 || k[i-1].Start != k[i].Start {
			break
		}
	}
	return names
}

// stubLine matches the head of a function in objdump's listing of the sections of the procedure linkage table.
// absoluteStub matches its name for a stub of an indirect function: it contains the address of the resolver.
var (
	stubLine     = regexp.MustCompile(`(?m)^([0-9a-f]{16}) <(.*@plt)>:$`)
	absoluteStub = regexp.MustCompile(`^\*ABS\*\+0x([0-9a-f]+)@plt$`)
)

// readStubs returns the stubs of a file as objdump lists them.
func readStubs(t testing.TB, file string, table []rig.Symbol) []rig.Symbol {
	t.Helper()
	need.Tools(t, "objdump")
	// objdump fails on a file without one of the sections, which is no reason to stop.
	sections := []string{"-j", ".plt", "-j", ".plt.got", "-j", ".plt.sec"}
	out, _ := exec.Command("objdump", append([]string{"-d", "--no-show-raw-insn", file}, sections...)...).Output()
	var stubs []rig.Symbol
	for _, match := range stubLine.FindAllStringSubmatch(string(out), -1) {
		start, err := strconv.ParseUint(match[1], 16, 64)
		if err != nil {
			t.Fatalf("objdump: %q", match[0])
		}
		name, _, _ := strings.Cut(match[2], "@")
		if absolute := absoluteStub.FindStringSubmatch(match[2]); absolute != nil {
			target, _ := strconv.ParseUint(absolute[1], 16, 64)
			for _, s := range table {
				if s.Start == target {
					stubs = append(stubs, rig.Symbol{Start: start, End: start + stubSize, Name: s.Name + "@plt"})
				}
			}
			continue
		}
		stubs = append(stubs, rig.Symbol{Start: start, End: start + stubSize, Name: name + "@plt"})
	}
	return stubs
}

// stubSize is the size of a stub except in .plt.got, where stubs have half the size and are contiguous.
const stubSize = 16

// readPerfMap returns the functions that a just-in-time compiler has written down, in
// its order.
func readPerfMap(t testing.TB, pid int) []rig.Symbol {
	t.Helper()
	var all []rig.Symbol
	for line := range strings.Lines(rig.ReadFile(t, fmt.Sprintf("/tmp/perf-%d.map", pid))) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) != 3 {
			continue // being written
		}
		start, err1 := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
		if err1 == nil && err2 == nil {
			all = append(all, rig.Symbol{Start: start, End: start + size, Name: fields[2]})
		}
	}
	return all
}

// vdsoFile writes the vdso to a file. Every process has the same.
func vdsoFile(t testing.TB) string {
	t.Helper()
	for line := range strings.Lines(rig.ReadFile(t, "/proc/self/maps")) {
		var start, end uint64
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
			t.Fatalf("/proc/self/maps: %q", line)
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		image := make([]byte, end-start)
		if _, err := memory.ReadAt(image, int64(start)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "vdso")
		rig.WriteFile(t, file, string(image))
		return file
	}
	t.Fatal("no vdso in /proc/self/maps")
	return ""
}

// debugFileOf returns the file whose DWARF data is a program's: its separate
// debug file or the file itself, "" if there is none.
func debugFileOf(t testing.TB, file, buildID string) string {
	t.Helper()
	need.Tools(t, "readelf")
	if len(buildID) > 2 {
		debug := filepath.Join("/usr/lib/debug/.build-id", buildID[:2], buildID[2:]+".debug")
		if _, err := os.Stat(debug); err == nil {
			return debug
		}
	}
	out, err := exec.Command("readelf", "-S", "-W", file).Output()
	if err == nil && strings.Contains(string(out), " .debug_info ") {
		return file
	}
	return ""
}
