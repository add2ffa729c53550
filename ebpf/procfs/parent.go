package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Parent returns the PID of a process's parent, 0 for one that has none here.
func (f FS) Parent(pid uint32) (uint32, error) {
	path := f.path(pid, "/stat")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// PID (comm) state ppid ...; the name may hold anything, ") " included.
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s: %d fields after the name", path, len(fields))
	}
	parent, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: parent: %w", path, err)
	}
	return uint32(parent), nil
}
