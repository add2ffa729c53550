package stacks

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// The stacks that eu-stack prints.

// nativeFrame is a frame as eu-stack prints it.
type nativeFrame struct {
	symbol  string // without version; "" where elfutils knows none
	module  string // path; of a library in a core the name that it has itself
	buildID string
	vaddr   uint64 // in the module; for all but the innermost frame inside the call instruction
}

var (
	stackLine   = regexp.MustCompile(`^#\d+\s+0x[0-9a-f]+(?: - 1)?(?: (\S+))?(?: - (\S.*))?$`)
	stackModule = regexp.MustCompile(`^\[([0-9a-f]+)\]@0x([0-9a-f]+)\+0x([0-9a-f]+)$`)
)

// nativeStack stops a thread for an instant and returns its user stack, the
// innermost frame first. It is nil when the thread is gone.
func nativeStack(t testing.TB, tid int) []nativeFrame {
	t.Helper()
	need.Tools(t, "eu-stack")
	// Exit code 1 says that not all was well, such as the vdso having no file.
	out, _ := urgent(t, exec.Command("eu-stack", "-1", "--raw", "--module", "--build-id", "-n", "0",
		"-p", fmt.Sprint(tid)))
	return parseNative(t, out)
}

// nativeThreads returns the stack of each thread of a process (-p PID) or core (--core FILE).
func nativeThreads(t testing.TB, of ...string) map[int][]nativeFrame {
	t.Helper()
	need.Tools(t, "eu-stack")
	// Exit code 1 says that not all was well, such as the vdso having no file.
	out, _ := urgent(t, exec.Command("eu-stack", append([]string{"--raw", "--module", "--build-id", "-n", "0"}, of...)...))
	stacks := map[int][]nativeFrame{}
	for _, part := range strings.Split("\n"+out, "\nTID ")[1:] {
		id, stack, _ := strings.Cut(part, ":\n")
		tid, err := strconv.Atoi(id)
		if err != nil {
			t.Fatalf("eu-stack: %q: %v", id, err)
		}
		stacks[tid] = parseNative(t, stack)
	}
	return stacks
}

// parseNative reads the stack of one thread as eu-stack prints it.
func parseNative(t testing.TB, out string) (frames []nativeFrame) {
	t.Helper()
	for line := range strings.Lines(out) {
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

// linkedInPlace reports whether a program is loaded where it was linked.
func linkedInPlace(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false // the vdso
	}
	defer file.Close()
	return file.Type == elf.ET_EXEC
}

// labels returns the names that a profile may give the frame.
func (f nativeFrame) labels(table, entries []rig.Symbol) []string {
	names, found := rig.SymbolLabels(table, entries, f.module, f.vaddr)
	if !found && f.symbol != "" { // of no size: hand-written assembly
		names = append(names, f.symbol)
	}
	return names
}

// chain is a user stack by eu-stack and nm: for each frame, the outermost
// first, the names that it may have.
type chain [][]string

// matches compares frames with a chain.
func (c chain) matches(frames []rig.Frame) bool {
	if len(frames) != len(c) {
		return false
	}
	for i, f := range frames {
		if !slices.Contains(c[i], f.Name) {
			return false
		}
	}
	return true
}

// matchesCallers is matches, but an innermost function without a name may be at another
// address.
func (c chain) matchesCallers(frames []rig.Frame) bool {
	if c.matches(frames) {
		return true
	}
	last := len(c) - 1
	if last < 0 || len(frames) != len(c) || !chain(c[:last]).matches(frames[:last]) {
		return false
	}
	file, _, unnamed := strings.Cut(c[last][0], "+0x")
	return unnamed && strings.HasPrefix(frames[last].Name, file+"+0x")
}

// nativeChains looks at the stack of a thread until it has seen count stacks that have the
// function below; any stack counts if that is empty. It returns the distinct chains of that
// function's callers, or of all frames, the most frequent first.
func nativeChains(t testing.TB, tid, count int, below string) []chain {
	t.Helper()
	tables, entries := map[string][]rig.Symbol{}, map[string][]rig.Symbol{}
	seen := map[string]chain{}
	often := map[string]int{}
	found := 0
	for end := time.Now().Add(2 * time.Minute); found < count && time.Now().Before(end); {
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
				tables[f.module] = rig.SymbolTable(t, f.module, f.buildID)
				if filepath.IsAbs(f.module) { // else the vdso, which has no file
					entries[f.module] = rig.FrameEntries(t, f.module)
				}
			}
			c = append(c, f.labels(tables[f.module], entries[f.module]))
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
