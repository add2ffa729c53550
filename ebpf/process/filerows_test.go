package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestIndexIsAwaitedElsewhere: other work reads a file whose entries have no index. The file's pages are missing until
// that work is done, and available afterwards.
func TestIndexIsAwaitedElsewhere(t *testing.T) {
	need.Tools(t, "gcc")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.c"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte("int main(void) { return 0; }"), 0o644))
	out, err := exec.Command("gcc", "-Wl,--no-eh-frame-hdr", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	file, err := elffile.Open(program)
	require.NoError(t, err)
	defer file.Close()

	var begun []func()
	late := error(&filework.SlowError{What: "reading"})
	rows := &fileRows{elf: file, index: func(work func()) (func() error, error) {
		begun = append(begun, work)
		return func() error { return late }, nil
	}}
	page := file.Entry() >> unwindtable.PageShift(file)
	for range 3 {
		p, err := rows.Page(page, unwindtable.PageShift(file))
		require.Nil(t, p)
		require.True(t, filework.Later(err), "%v", err)
		_, ok, err := rows.CallFrame(file.Entry())
		require.False(t, ok)
		require.True(t, filework.Later(err), "%v", err)
	}
	require.Len(t, begun, 1, "the same work is awaited")
	begun[0]()
	late = nil
	p, err := rows.Page(page, unwindtable.PageShift(file))
	require.NoError(t, err)
	require.NotEmpty(t, p.Rows)
	require.Len(t, begun, 1)
}
