package process

import (
	"os"
	"testing"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// TestVDSODirectory: the whole mapping of the vdso has its pages in the unwind tables. On arm64, the return address of
// signal handlers is in it.
func TestVDSODirectory(t *testing.T) {
	tracker, _ := newTracker(t, procfs.Default)
	pid := uint32(os.Getpid())
	tracker.scanProcess(pid)
	for _, m := range tracker.At(pid, 0).mappings {
		if m.exe == nil || m.exe.Path != procfs.VDSO {
			continue
		}
		if u := m.forUnwinder(); u.Directory.Pages == 0 {
			has := m.exe.image.Load().directory
			t.Errorf("mapping 0x%x to 0x%x has no directory, the executable has %+v", m.start, m.end, has)
		}
		return
	}
	t.Error("this process has no vdso")
}
