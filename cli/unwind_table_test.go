package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli/internal/listing"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// unwindTable runs the command and returns its output.
func unwindTable(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := unwindTableCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage = true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

// TestUnwindTableRows compares the columns with readelf's, which leave open what
// expressions say.
func TestUnwindTableRows(t *testing.T) {
	path := ehtest.Files(t)[0]
	out, err := unwindTable(t, path)
	require.NoError(t, err)
	lines := make(map[uint64][]string)
	for line := range strings.Lines(out) {
		var from uint64
		if n, _ := fmt.Sscanf(line, "%x", &from); n == 1 {
			lines[from] = strings.Fields(line)[2:]
		}
	}
	compared := 0
	ehtest.EachFDE(t, path, ".eh_frame", func(fde *ehtest.FDE) {
		for _, row := range fde.Rows {
			cfa, rbp, ra := fde.Cell(row, "CFA"), fde.Cell(row, "rbp"), fde.Cell(row, "ra")
			if cfa == "exp" || rbp == "exp" || ra == "u" || strings.ContainsAny(fde.Cell(row, "rsp"), "rc") {
				continue
			}
			got, ok := lines[row.Loc]
			if !ok { // the previous rule still applies
				continue
			}
			if rbp == "" || rbp == "u" {
				rbp = "s"
			}
			require.Equal(t, []string{cfa, rbp, ra}, got, "row at %#x", row.Loc)
			compared++
		}
	})
	require.Greater(t, compared, 1000)
}

// TestUnwindTablePC looks addresses up whose FDE readelf knows.
func TestUnwindTablePC(t *testing.T) {
	path := ehtest.Files(t)[0]
	for i, fde := range ehtest.Interp(t, path, ".eh_frame") {
		if i%500 != 0 || fde.Start == fde.End {
			continue
		}
		out, err := unwindTable(t, path, "--json", "--pc", fmt.Sprintf("%#x", fde.End-1))
		require.NoError(t, err)
		var got listing.PC
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		require.NotNil(t, got.FDE)
		want := fmt.Sprintf("%#x %#x-%#x", fde.Offset, fde.Start, fde.End)
		require.Equal(t, want, fmt.Sprintf("%s %s-%s", got.FDE.Offset, got.FDE.Start, got.FDE.End))
		require.NotEmpty(t, got.Row.CFA+got.Row.Reason)

		out, err = unwindTable(t, path, "--pc", fmt.Sprintf("%x", fde.End-1))
		require.NoError(t, err)
		require.Contains(t, out, fmt.Sprintf("FDE %#x of .eh_frame, pc=%#x..%#x", fde.Offset, fde.Start, fde.End))
	}
}

// TestUnwindTableStats compares the text with rules with readelf's ranges, and the
// rows with those that are listed.
func TestUnwindTableStats(t *testing.T) {
	path := ehtest.Files(t)[0]
	out, err := unwindTable(t, path, "--stats", "--json")
	require.NoError(t, err)
	var got listing.Stats
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	described, untranslated, fdes := uint64(0), uint64(0), 0
	ehtest.EachFDE(t, path, ".eh_frame", func(fde *ehtest.FDE) {
		described += fde.End - fde.Start
		fdes++
	})
	for _, u := range got.Untranslated {
		untranslated += u.Bytes
	}
	// Known code has rows without an FDE: a byte each at a signal trampoline and a coroutine's start,
	// and ten where clone and
	// clone3 make their system call.
	withRules := got.CoveredBytes + untranslated
	require.GreaterOrEqual(t, withRules, described)
	require.LessOrEqual(t, withRules, described+2*10+2)
	require.Equal(t, got.TextBytes, got.CoveredBytes+untranslated+got.GapBytes)
	require.Equal(t, fdes, got.FDEs)
	require.Equal(t, 8*got.Rows+16*got.WideRules, got.RowBytes)

	list, err := unwindTable(t, path, "--json")
	require.NoError(t, err)
	listed := strings.Count(list, "\n")
	require.LessOrEqual(t, listed, got.Rows)
	require.Greater(t, listed, got.Rows-2*got.Pages, "a page border adds at most one row, a segment's end another")

	text, err := unwindTable(t, path, "--stats")
	require.NoError(t, err)
	require.Contains(t, text, fmt.Sprintf("%d FDEs", fdes))
}

// TestUnwindTableErrors has files without a table, and addresses without text.
func TestUnwindTableErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	libc := ehtest.Files(t)[0]
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no ELF":       {[]string{file("script", []byte("#!/bin/sh\n# nothing else\n"))}, "bad magic number"},
		"no file":      {[]string{filepath.Join(dir, "nothing")}, "no such file"},
		"32-bit":       {[]string{file("elf32", elfHeader(1))}, "a 32-bit file"},
		"no table":     {[]string{file("elf64", elfHeader(2))}, "no unwind information"},
		"pc outside":   {[]string{libc, "--pc", "1"}, "pc 0x1 is outside the text of " + libc},
		"no address":   {[]string{libc, "--pc", "main"}, "--pc main: not an address in hexadecimal"},
		"pc and stats": {[]string{libc, "--pc", "1", "--stats"}, "none of the others can be"},
		"no arguments": {nil, "accepts 1 arg"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unwindTable(t, c.args...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// elfHeader returns an x86 program of a class, 1 for 32 bit, without segments.
func elfHeader(class byte) []byte {
	b := make([]byte, 64)
	copy(b, []byte{0x7f, 'E', 'L', 'F', class, 1, 1})
	machine, size := uint16(62), 64
	if class == 1 {
		machine, size = 3, 52
	}
	binary.LittleEndian.PutUint16(b[16:], 2)
	binary.LittleEndian.PutUint16(b[18:], machine)
	binary.LittleEndian.PutUint32(b[20:], 1)
	binary.LittleEndian.PutUint16(b[size-12:], uint16(size))
	return b[:size]
}
