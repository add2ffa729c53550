package verify

import (
	"fmt"
	"sync"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
)

// family tracks the descendants of a process. Safe for concurrent use.
type family struct {
	mu      sync.Mutex
	root    uint32
	parents map[uint32]uint32 // by PID, from fork records and from procfs
}

func newFamily() *family { return &family{parents: map[uint32]uint32{}} }

// observe records the parents of new processes.
func (f *family) observe(r *kernel.Record) {
	if r.Kind != kernel.RecordFork {
		return
	}
	f.mu.Lock()
	f.parents[r.PID] = r.Parent
	f.mu.Unlock()
}

// begin makes pid the root. It must exist.
func (f *family) begin(pid uint32, fs procfs.FS) error {
	if _, err := fs.Parent(pid); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	pids, err := fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.root = pid
	for _, pid := range pids {
		if _, known := f.parents[pid]; known {
			continue
		}
		if parent, err := fs.Parent(pid); err == nil {
			f.parents[pid] = parent
		}
	}
	return nil
}

// hasProcess reports whether a process is the root or descends from it.
func (f *family) hasProcess(pid uint32) bool {
	const deepest = 1000
	f.mu.Lock()
	defer f.mu.Unlock()
	for range deepest {
		if pid == f.root {
			return true
		}
		parent, ok := f.parents[pid]
		if !ok {
			return false
		}
		pid = parent
	}
	return false
}
