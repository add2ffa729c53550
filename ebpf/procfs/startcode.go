package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Exe returns the path through which the file of a process's program is opened.
func (f FS) Exe(pid uint32) string { return f.path(pid, "/exe") }

// StartCode returns where the code of a process's program begins, as the kernel notes it
// (proc_pid_stat(5), startcode). It is 0 without the right to trace the process.
func (f FS) StartCode(pid uint32) (uint64, error) {
	path := f.path(pid, "/stat")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	const after = 23 // field 26, of those after the name, which are 3 and on
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= after {
		return 0, fmt.Errorf("%s: %d fields after the name", path, len(fields))
	}
	start, err := strconv.ParseUint(fields[after], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: startcode: %w", path, err)
	}
	return start, nil
}
