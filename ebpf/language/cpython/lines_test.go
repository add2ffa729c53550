package cpython

import (
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
)

// TestLines compares the line of each instruction of some modules with Python's own result: code.co_lines, or
// dis.findlinestarts before 3.10.
func TestLines(t *testing.T) {
	program, err := filepath.Abs("testdata/lines.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, python := range pythons(t) {
		t.Run(python, func(t *testing.T) {
			minor, err := strconv.Atoi(ask(t, python, "import sys; print(sys.version_info[1])"))
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(python, program).Output()
			if err != nil {
				t.Fatal(err)
			}
			instructions, wrong := 0, 0
			for line := range strings.Lines(string(out)) {
				first, table, want := function(t, line)
				if bytes := codeBytes(minor, table); minor > 10 && bytes != 2*uint64(len(want)) {
					t.Fatalf("first line %d: %d bytes, want %d", first, bytes, 2*len(want))
				}
				table = lineTable(minor, table, first)
				for i, want := range want {
					instructions++
					if got := language.LineAt(table, 2*uint64(i)); got != want {
						if wrong++; wrong < 10 {
							t.Errorf("first line %d, offset %d: line %d, want %d", first, 2*i, got, want)
						}
					}
				}
			}
			if instructions < 50000 || wrong > 0 {
				t.Errorf("%d of %d instructions have a wrong line", wrong, instructions)
			}
		})
	}
}

// function parses a line of the output of testdata/lines.py.
func function(t *testing.T, line string) (first int, table []byte, lines []int) {
	t.Helper()
	fields := strings.Fields(line)
	if len(fields) != 3 {
		t.Fatalf("line %q", line)
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if fields[1] != "-" {
		var err error
		if table, err = hex.DecodeString(fields[1]); err != nil {
			t.Fatal(err)
		}
	}
	for n := range strings.SplitSeq(fields[2], ",") {
		lines = append(lines, number(n))
	}
	return number(fields[0]), table, lines
}

// FuzzLine: no table causes a panic or an endless loop, and no line is negative.
func FuzzLine(f *testing.F) {
	f.Add(uint8(9), []byte{6, 1, 8, 0xff}, 10, uint64(8))
	f.Add(uint8(10), []byte{6, 1, 8, 0x80}, 10, uint64(8))
	f.Add(uint8(11), []byte{0xf8, 0xeb, 0x80, 0xff, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}, 10, uint64(8))
	f.Fuzz(func(t *testing.T, minor uint8, table []byte, first int, ip uint64) {
		table = lineTable(int(minor), table, first&0x7fffffff)
		if got := language.LineAt(table, ip); got < 0 || len(table) > language.MaxTable {
			t.Errorf("line %d, %d bytes", got, len(table))
		}
	})
}
