package codeflow

import (
	"bufio"
	"debug/elf"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// disassembled holds the instructions of a file and the returns among them, from objdump.
type disassembled struct{ instructions, returns map[uint64]bool }

var (
	line     = regexp.MustCompile(`^ *([0-9a-f]+):\t(.*)$`)
	returned = regexp.MustCompile(`^(?:(?:repz|bnd|notrack) )*ret`)
)

func disassemble(t *testing.T, path string) disassembled {
	t.Helper()
	need.Tools(t, "objdump")
	cmd := exec.Command("objdump", "-d", "--no-show-raw-insn", path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	d := disassembled{map[uint64]bool{}, map[uint64]bool{}}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := line.FindStringSubmatch(lines.Text()); m != nil {
			addr, err := strconv.ParseUint(m[1], 16, 64)
			require.NoError(t, err)
			d.instructions[addr] = true
			if returned.MatchString(strings.TrimSpace(m[2])) {
				d.returns[addr] = true
			}
		}
	}
	require.NoError(t, cmd.Wait())
	return d
}

// TestObjdump compares all functions of libraries with objdump: each followed instruction starts
// where objdump's does, and a completely followed function has all its returns.
func TestObjdump(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "the libraries are those of amd64")
	}
	for _, path := range []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	} {
		t.Run(path, func(t *testing.T) {
			d := disassemble(t, path)
			file, err := elffile.Open(path)
			require.NoError(t, err)
			defer file.Close()
			finder, err := NewFinder(file)
			require.NoError(t, err)
			symbols, err := elf.Open(path)
			require.NoError(t, err)
			defer symbols.Close()
			dynamic, err := symbols.DynamicSymbols()
			require.NoError(t, err)
			checked, whole, failed := 0, 0, []string{}
			for _, s := range dynamic {
				if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Size == 0 {
					continue
				}
				checked++
				f, err := finder.Function(s.Value, s.Size)
				if err != nil {
					failed = append(failed, s.Name+": "+err.Error())
					continue
				}
				var returns []uint64
				for _, in := range f.Instructions {
					if !d.instructions[in.Addr] {
						t.Errorf("%s: no instruction begins at %#x", s.Name, in.Addr)
					}
					if in.Kind == Return {
						returns = append(returns, in.Addr)
					}
				}
				if f.Unfollowed != 0 {
					continue
				}
				whole++
				for at := s.Value; at < s.Value+s.Size; at++ {
					if d.returns[at] && !slices.Contains(returns, at) {
						t.Errorf("%s (%#x): the return at %#x is missing", s.Name, s.Value, at)
					}
				}
			}
			t.Logf("%d functions, %d followed whole, %d failed: %s", checked, whole, len(failed),
				strings.Join(failed[:min(5, len(failed))], "; "))
			require.Greater(t, whole, checked*95/100)
		})
	}
}
