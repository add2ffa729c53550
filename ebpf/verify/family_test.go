package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
)

func TestFamily(t *testing.T) {
	root := t.TempDir()
	for pid, stat := range map[string]string{
		"1": "1 (init) S 0 1 1", "10": "10 (a) b) S 1 10 10", "11": "11 (child) S 10 10 10", "12": "12 (other) S 1 12 12",
	} {
		if err := os.Mkdir(filepath.Join(root, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, pid, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := newFamily()
	f.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: 11, PID: 20}) // before begin
	if err := f.begin(10, procfs.FS{Root: root}); err != nil {
		t.Fatal(err)
	}
	f.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: 20, PID: 21})
	f.observe(&kernel.Record{Kind: kernel.RecordFork, Parent: 12, PID: 22})
	wants := map[uint32]bool{10: true, 11: true, 20: true, 21: true, 1: false, 12: false, 22: false, 99: false}
	for pid, want := range wants {
		if got := f.hasProcess(pid); got != want {
			t.Errorf("process %d: %t, want %t", pid, got, want)
		}
	}
	if err := newFamily().begin(99, procfs.FS{Root: root}); !procfs.Gone(err) {
		t.Errorf("a process that is not there: %v", err)
	}
}
