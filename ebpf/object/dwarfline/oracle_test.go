package dwarfline

import (
	"bufio"
	"debug/elf"
	"fmt"
	"math/rand"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// addr2line asks a tool with addr2line's options for the frames at addresses.
func addr2line(t testing.TB, tool, file string, addrs []uint64) [][]Frame {
	t.Helper()
	need.Tools(t, tool)
	var in strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(tool, "-a", "-i", "-f", "-e", file)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil && len(out) == 0 { // eu-addr2line fails for addresses outside all units
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	answers := parseAddr2line(t, string(out))
	if len(answers) != len(addrs) {
		t.Fatalf("%v gave %d answers for %d addresses", cmd.Args, len(answers), len(addrs))
	}
	return answers
}

// placePattern matches addr2line's file:line, or elfutils' file:line:column.
var placePattern = regexp.MustCompile(`^(.*?):(\d+|\?)(:\d+)?( \(discriminator.*)?$`)

// parseAddr2line decodes lines: the address, then function and place of each
// frame.
func parseAddr2line(t testing.TB, out string) (answers [][]Frame) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(out))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if strings.HasPrefix(s.Text(), "0x") {
			answers = append(answers, nil)
			continue
		}
		function, _, _ := strings.Cut(s.Text(), " inlined at ") // elfutils' format
		if !s.Scan() || len(answers) == 0 {
			t.Fatalf("cannot understand what addr2line prints:\n%.1000s", out)
		}
		m := placePattern.FindStringSubmatch(s.Text())
		if m == nil {
			t.Fatalf("no file and line in %q", s.Text())
		}
		line, _ := strconv.Atoi(m[2])
		last := &answers[len(answers)-1]
		*last = append(*last, Frame{Function: known(function), File: known(m[1]), Line: line})
	}
	return answers
}

// known returns "" for the text that addr2line prints for unknown values.
func known(s string) string {
	if s == "??" {
		return ""
	}
	return s
}

// codeAddresses returns n random addresses inside functions of a file's symbol
// table.
func codeAddresses(t testing.TB, file string, n int, seed int64) []uint64 {
	t.Helper()
	f, err := elffile.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var sized []elffile.Symbol
	total := uint64(0)
	for _, s := range symbols {
		if s.Size > 0 && s.Value > 0 && s.Type == elf.STT_FUNC {
			sized = append(sized, s)
			total += s.Size
		}
	}
	if total == 0 {
		t.Fatalf("%s: no functions", file)
	}
	random := rand.New(rand.NewSource(seed))
	addrs := make([]uint64, n)
	for i := range addrs {
		at := random.Uint64() % total
		for _, s := range sized {
			if at < s.Size {
				addrs[i] = s.Value + at
				break
			}
			at -= s.Size
		}
	}
	return addrs
}

// open opens a file's DWARF data.
func open(t testing.TB, file string) *Data {
	t.Helper()
	f, err := elffile.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := Open(f, OpenOptions{
		Paths: []string{file}, OpenFile: elffile.Open, DebugDirs: []string{"/usr/lib/debug"},
		Spill: &elffile.Spill{Dir: t.TempDir()},
	})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	t.Cleanup(d.Close)
	return d
}
