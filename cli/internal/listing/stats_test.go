package listing

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestSources has programs with each source of rules. readelf shows how much text the FDEs cover.
func TestSources(t *testing.T) {
	need.Tools(t, "gcc", "objcopy", "strip", "readelf")
	dir := t.TempDir()
	const source = `static volatile int n;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 9; i++) n += i; }
int main(void) { for (;;) work(); }`
	program := func(name string, flags ...string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("gcc", append([]string{"-O1", "-g", "-o", path, "-x", "c", "-"}, flags...)...)
		cmd.Stdin = strings.NewReader(source)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return path
	}
	none := []string{"-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-nostdlib", "-static", "-e", "main"}
	plain, inFile, apart := program("plain"), program("inside", none...), program("apart", none...)
	bare, debug := program("bare", none...), filepath.Join(dir, "apart.debug")
	for _, c := range [][]string{
		{"objcopy", "--only-keep-debug", apart, debug}, {"strip", apart}, {"objcopy", "--add-gnu-debuglink=" + debug, apart},
		{"strip", "--strip-all", "--remove-section=.note.gnu.build-id", bare},
	} {
		out, err := exec.Command(c[0], c[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", c, out)
	}
	for _, c := range []struct{ path, source, section, same string }{ // same has the same code, and the section
		{plain, "eh_frame", ".eh_frame", plain}, {inFile, "debug_frame", ".debug_frame", inFile},
		{apart, "debug_frame", ".debug_frame", inFile}, {bare, "code_analysis", "", ""},
	} {
		got, text := statsOf(t, c.path)
		of := map[string]uint64{}
		sum := uint64(0)
		for _, s := range got.Sources {
			of[s.Source] = s.Bytes
			sum += s.Bytes
		}
		require.Equal(t, got.TextBytes, sum, "%s: %+v", c.path, got.Sources)
		if c.section == "" {
			require.NotZero(t, of[c.source], "%+v", got.Sources)
			require.Zero(t, of["eh_frame"]+of["debug_frame"], "%+v", got.Sources)
			continue
		}
		want := uint64(0)
		for _, fde := range ehtest.Interp(t, c.same, c.section) {
			want += fde.End - fde.Start
		}
		require.Equal(t, want, of[c.source], "%s: %+v", c.path, got.Sources)
		if c.path == apart {
			require.Equal(t, debug, got.DebugFile)
			require.Contains(t, text, "FDEs in "+debug)
		}
	}
	self, err := os.Executable() // Go
	require.NoError(t, err)
	got, _ := statsOf(t, self)
	require.Equal(t, "go_functions", got.Sources[0].Source)
	require.Greater(t, got.Sources[0].Bytes, got.TextBytes*9/10)
}

// statsOf returns the size of the table of a file, as JSON and as text.
func statsOf(t *testing.T, path string) (got Stats, text string) {
	t.Helper()
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	var out bytes.Buffer
	require.NoError(t, f.WriteStats(&out, true))
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	out.Reset()
	require.NoError(t, f.WriteStats(&out, false))
	return got, out.String()
}
