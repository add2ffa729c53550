package integration

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What other tools say about programs and processes.

// buildID returns the GNU build ID of a file as readelf prints it.
func buildID(t testing.TB, path string) string {
	t.Helper()
	requireTools(t, "readelf")
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

// kernelSymbols returns the names of the kernel's functions.
func kernelSymbols(t testing.TB) map[string]bool {
	t.Helper()
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 3 && strings.Contains("tTwW", fields[1]) {
			names[fields[2]] = true
		}
	}
	return names
}

// nativeFrame is a frame as eu-stack tells it.
type nativeFrame struct {
	symbol  string // without version; "" where elfutils knows none
	module  string // path
	buildID string
	vaddr   uint64 // in the module; for all but the innermost frame inside the call instruction
}

var (
	stackLine   = regexp.MustCompile(`^#\d+\s+0x[0-9a-f]+(?: - 1)?(?: (\S+))?(?: - (/.*))?$`)
	stackModule = regexp.MustCompile(`^\[([0-9a-f]+)\]@0x([0-9a-f]+)\+0x([0-9a-f]+)$`)
)

// nativeStack stops a thread for an instant and returns its user stack, the
// innermost frame first. It is nil when the thread is gone.
func nativeStack(t testing.TB, tid int) []nativeFrame {
	t.Helper()
	requireTools(t, "eu-stack")
	// Exit code 1 says that not all was well, such as the vdso having no file.
	out, _ := exec.Command("eu-stack", "-1", "--raw", "--module", "--build-id", "-n", "0", "-p", fmt.Sprint(tid)).Output()
	var frames []nativeFrame
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if match := stackLine.FindStringSubmatch(line); match != nil {
			symbol, _, _ := strings.Cut(match[1], "@")
			frames = append(frames, nativeFrame{symbol: symbol, module: match[2]})
			continue
		}
		match := stackModule.FindStringSubmatch(line)
		if match == nil || len(frames) == 0 {
			continue
		}
		last := &frames[len(frames)-1]
		last.buildID = match[1]
		start, err1 := strconv.ParseUint(match[2], 16, 64)
		offset, err2 := strconv.ParseUint(match[3], 16, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("eu-stack: %q: %v", line, err)
		}
		last.vaddr = offset
		if linkedInPlace(last.module) {
			last.vaddr += start
		}
	}
	return frames
}

// linkedInPlace tells whether a program is loaded where it was linked.
func linkedInPlace(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false // the vdso
	}
	defer file.Close()
	return file.Type == elf.ET_EXEC
}

// symbol is a line of nm.
type symbol struct {
	start, end uint64
	name       string
}

// symbolTable returns the functions of a file, of its dynamic table and of
// its separate debug file, if there is one, as nm prints them.
func symbolTable(t testing.TB, module, buildID string) []symbol {
	t.Helper()
	requireTools(t, "nm")
	var table []symbol
	read := func(args ...string) {
		// nm fails on a file without such a table, which is no reason to stop.
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
			table = append(table, symbol{start, start + size, name})
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

// labels returns the names that a profile may give the frame: any alias of
// the function that it is in; without one, file and address, where the address
// may be that of the call or the return address after it.
func (f nativeFrame) labels(table []symbol) []string {
	var names []string
	for _, s := range table {
		if s.start <= f.vaddr && f.vaddr < s.end {
			names = append(names, s.name)
			if whole, _, part := strings.Cut(s.name, "."); part { // f.cold, which DWARF data calls f
				names = append(names, whole)
			}
		}
	}
	if len(names) > 0 {
		return names
	}
	base := filepath.Base(f.module)
	names = []string{fmt.Sprintf("%s+0x%x", base, f.vaddr), fmt.Sprintf("%s+0x%x", base, f.vaddr+1)}
	if f.symbol != "" { // of no size: hand-written assembly
		names = append(names, f.symbol)
	}
	return names
}

// chain is a user stack by eu-stack and nm: for each frame, the outermost
// first, the names that it may have.
type chain [][]string

// matches compares frames with a chain.
func (c chain) matches(frames []frame) bool {
	if len(frames) != len(c) {
		return false
	}
	for i, f := range frames {
		if !slices.Contains(c[i], f.name) {
			return false
		}
	}
	return true
}

// matchesCallers compares frames with a chain but for the address at which
// an innermost function without a name is at that instant.
func (c chain) matchesCallers(frames []frame) bool {
	if c.matches(frames) {
		return true
	}
	last := len(c) - 1
	if last < 0 || len(frames) != len(c) || !chain(c[:last]).matches(frames[:last]) {
		return false
	}
	file, _, unnamed := strings.Cut(c[last][0], "+0x")
	return unnamed && strings.HasPrefix(frames[last].name, file+"+0x")
}

// nativeChains looks at the stack of a thread until it has found it count
// times in the function below, or anywhere if that is empty, and returns the
// distinct chains of its callers, or of all frames. The most frequent is first.
func nativeChains(t testing.TB, tid, count int, below string) []chain {
	t.Helper()
	tables := map[string][]symbol{}
	seen := map[string]chain{}
	often := map[string]int{}
	found := 0
	for end := time.Now().Add(30 * time.Second); found < count && time.Now().Before(end); {
		frames := nativeStack(t, tid)
		if below != "" {
			at := slices.IndexFunc(frames, func(f nativeFrame) bool { return f.symbol == below })
			frames = frames[at+1:]
			if at < 0 {
				continue
			}
		}
		if len(frames) == 0 {
			continue
		}
		found++
		var c chain
		for _, f := range slices.Backward(frames) {
			if _, ok := tables[f.module]; !ok {
				tables[f.module] = symbolTable(t, f.module, f.buildID)
			}
			c = append(c, f.labels(tables[f.module]))
		}
		key := fmt.Sprint(c)
		seen[key] = c
		often[key]++
	}
	if found == 0 {
		t.Fatalf("eu-stack finds no stack of %d below %q", tid, below)
	}
	keys := slices.SortedFunc(maps.Keys(seen), func(a, b string) int { return often[b] - often[a] })
	var chains []chain
	for _, key := range keys {
		chains = append(chains, seen[key])
	}
	return chains
}

// children returns the processes that a process has started.
func children(t testing.TB, pid int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		child, rest, _ := strings.Cut(string(text), " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:])
		if len(fields) > 1 && fields[1] == fmt.Sprint(pid) {
			number, err := strconv.Atoi(child)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			found = append(found, number)
		}
	}
	return found
}

// cpuTime returns the CPU time that a process, or a thread as PID/task/TID,
// has used so far. The kernel
// counts it in ticks of 10 ms.
func cpuTime(t testing.TB, process string) time.Duration {
	t.Helper()
	text := readFile(t, "/proc/"+process+"/stat")
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	ticks := int64(0)
	for _, field := range fields[11:13] { // utime and stime, proc(5) fields 14 and 15
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("/proc/%s/stat: %v", process, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
