package record

import (
	"fmt"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Process is a process of this host.
type Process struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name"`
}

// findChildren finds the earlier descendants of the selected processes. With Children it selects them, otherwise it
// lists them in leftOut.
func (s *selection) findChildren() error {
	if len(s.PIDs) == 0 {
		return nil
	}
	pids, err := s.fs.PIDs()
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	children := map[uint32][]uint32{}
	for _, pid := range pids {
		if parent, err := s.fs.Parent(pid); err == nil { // on error the process has ended
			children[parent] = append(children[parent], pid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[uint32]bool{}
	for todo := append([]uint32{}, s.roots...); len(todo) > 0; todo = todo[1:] {
		for _, pid := range children[todo[0]] {
			if seen[pid] {
				continue // already seen: a root below another root, or a process with a new parent
			}
			seen[pid] = true
			todo = append(todo, pid)
			switch {
			case s.family[pid]: // it is selected itself, or has just been started
			case s.Children:
				s.family[pid] = true
			case s.fs.Lives(pid):
				s.leftOut = append(s.leftOut, Process{pid, nameOf(s.fs, pid)})
			}
		}
	}
	return nil
}

func nameOf(fs procfs.FS, pid uint32) string {
	name, err := fs.Comm(pid)
	if err != nil {
		return "?"
	}
	return name
}
