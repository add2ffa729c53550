package process

import (
	"os"
	"testing"

	"github.com/headwater/headwater/ebpf/procfs"
)

// TestVDSODirectory: the vdso's mapping, all of it, has its pages in the unwind
// tables. Where signal handlers return to is in it on arm64.
func TestVDSODirectory(t *testing.T) {
	tracker, _ := newTracker(t, procfs.Default)
	p := tracker.scan(uint32(os.Getpid()))
	if p == nil {
		t.Fatal("this process has no mappings")
	}
	tracker.settle(p)
	for _, m := range p.mappings {
		if m.exe == nil || m.exe.Path != vdsoPath {
			continue
		}
		if u := m.forUnwinder(); u.Directory.Pages == 0 {
			t.Errorf("mapping 0x%x to 0x%x has no directory, the executable has %+v", m.start, m.end, m.exe.directory)
		}
		return
	}
	t.Error("this process has no vdso")
}
