package procfs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

func TestProcess(t *testing.T) {
	need.Tools(t, "ps")
	self := uint32(os.Getpid())
	uid, err := Default.UID(self)
	require.NoError(t, err)
	require.EqualValues(t, os.Getuid(), uid)
	cwd, err := Default.Cwd(self)
	require.NoError(t, err)
	want, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, want, cwd)
	cmdline, err := Default.Cmdline(self)
	require.NoError(t, err)
	args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(os.Getpid()), "-ww").Output()
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(args)), strings.TrimSpace(cmdline))

	gone := FS{Root: t.TempDir()}
	_, err = gone.UID(1)
	require.True(t, Gone(err))
	_, err = gone.Cmdline(1)
	require.True(t, Gone(err))
}

func TestUIDOfForeignStatus(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(root+"/1", 0o755))
	for _, status := range []string{"", "Name:\ta\n", "Uid:", "Uid:\t-1\t0\t0\t0\n"} {
		require.NoError(t, os.WriteFile(root+"/1/status", []byte(status), 0o644))
		_, err := FS{Root: root}.UID(1)
		require.Error(t, err, status)
	}
}

// A process may have megabytes of arguments, and tens of thousands of mappings of files
// with long paths.
func TestBounds(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(root+"/1", 0o755))
	require.NoError(t, os.WriteFile(root+"/1/cmdline", bytes.Repeat([]byte("a\x00"), MaxCmdline), 0o644))
	cmdline, err := FS{Root: root}.Cmdline(1)
	require.NoError(t, err)
	require.Len(t, cmdline, MaxCmdline-1)

	file, err := os.Create(root + "/1/maps")
	require.NoError(t, err)
	defer file.Close()
	maps := bufio.NewWriter(file)
	long := strings.Repeat("/"+strings.Repeat("x", 250), 16)
	const count = 65_530
	for i := range count {
		fmt.Fprintf(maps, "%x-%x r-xp 00000000 08:01 %d %s/%d\n", 4096*(2*i+1), 4096*(2*i+2), i+1, long, i)
	}
	require.NoError(t, maps.Flush())
	mappings, err := FS{Root: root}.ExecMappings(1)
	require.NoError(t, err)
	require.Len(t, mappings, count)
	bytes := 0
	for _, m := range mappings {
		bytes += len(m.Path)
	}
	require.LessOrEqual(t, bytes, MaxPaths+256*count)
	require.True(t, mappings[count-1].HasFile())
	require.Equal(t, long+"/0", mappings[0].Path)
	require.Equal(t, "/.../65529", mappings[count-1].Path)
	require.False(t, mappings[0].Shortened)
	require.True(t, mappings[count-1].Shortened)
}

// TestPathsOfData: long paths of data do not shorten the paths of code, not even of the same file.
func TestPathsOfData(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(root+"/1", 0o755))
	var maps strings.Builder
	long := strings.Repeat("/"+strings.Repeat("x", 250), 16)
	const count = 2 * MaxPaths / 4000
	for i := range count {
		fmt.Fprintf(&maps, "%x-%x r--p 00000000 08:01 %d %s/%d\n", 4096*(2*i+1), 4096*(2*i+2), i+1, long, i)
	}
	const code = 4096 * 3 * count
	fmt.Fprintf(&maps, "%x-%x r-xp 00000000 08:01 %d %s/%d\n", code, code+4096, count, long, count-1)
	fmt.Fprintf(&maps, "%x-%x rw-p 00000000 00:00 0\n", code+4096, code+8192)
	require.NoError(t, os.WriteFile(root+"/1/maps", []byte(maps.String()), 0o644))
	mappings, err := FS{Root: root}.CodeAndFiles(1)
	require.NoError(t, err)
	require.Len(t, mappings, count+1)
	require.True(t, mappings[count-1].Shortened)
	require.False(t, mappings[count].Shortened)
	require.Equal(t, fmt.Sprintf("%s/%d", long, count-1), mappings[count].Path)
}
