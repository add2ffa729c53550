package dwarfline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// starts returns the start lines of the functions at each address, innermost first, from LLVM.
func starts(t *testing.T, file string, addrs []uint64) (all [][]int) {
	t.Helper()
	for chunk := range slices.Chunk(addrs, 1000) {
		args := []string{"--output-style=JSON", "-i", "-e", file}
		for _, a := range chunk {
			args = append(args, fmt.Sprintf("%#x", a))
		}
		var answer []struct{ Symbol []struct{ StartLine int } }
		if err := json.Unmarshal([]byte(run(t, ".", "llvm-symbolizer", args...)), &answer); err != nil {
			t.Fatal(err)
		}
		for _, a := range answer {
			var lines []int
			for _, s := range a.Symbol {
				lines = append(lines, s.StartLine)
			}
			all = append(all, lines)
		}
	}
	return all
}

// TestStartLines compares the start lines of functions, including inlined ones, with LLVM's.
func TestStartLines(t *testing.T) {
	for _, tt := range []struct {
		name, source, compiler string
		flags                  []string
	}{
		{"gcc", "plain.c", "gcc", []string{"-O2", "-g"}},
		{"gcc DWARF 4", "plain.c", "gcc", []string{"-O2", "-gdwarf-4"}},
		{"g++", "templates.cc", "g++", []string{"-O2", "-g"}},
		{"clang DWARF 4", "plain.c", "clang-19", []string{"-O2", "-gdwarf-4"}},
		{"clang++ DWARF 4", "templates.cc", "clang++-19", []string{"-O2", "-gdwarf-4"}},
		{"rustc", "generic.rs", "rustc", []string{"-C", "opt-level=3", "-g"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			program := built(t, tt.source, tt.compiler, tt.flags...)
			addrs := codeAddresses(t, program, 300, 1)
			d := open(t, program)
			equal, inlined := 0, 0
			var examples []string
			for i, want := range starts(t, program, addrs) {
				frames, err := d.Frames(addrs[i])
				if err != nil {
					t.Fatal(err)
				}
				var lines []int
				for _, f := range frames {
					lines = append(lines, f.StartLine)
				}
				switch {
				case len(frames) == 0 || len(lines) != len(want): // see TestAddr2line
				case slices.Equal(lines, want):
					equal++
					inlined += len(lines) - 1
				default:
					examples = append(examples, fmt.Sprintf("%#x: %s begin at %d, LLVM says %d", addrs[i], text(frames), lines, want))
				}
			}
			t.Logf("%d of %d addresses equal, %d inlined calls, %d differ", equal, len(addrs), inlined, len(examples))
			if equal < len(addrs)/2 || len(examples)*1000 > equal {
				t.Errorf("%d addresses have other first lines: %s", len(examples),
					strings.Join(examples[:min(len(examples), 8)], "\n"))
			}
		})
	}
}
