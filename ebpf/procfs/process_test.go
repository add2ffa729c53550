package procfs

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcess(t *testing.T) {
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
