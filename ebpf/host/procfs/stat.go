package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// firstField is the number of the first field that stat returns, the state, in proc_pid_stat(5).
const firstField = 3

// statFields returns the fields of /proc/PID/stat after the name of the process, which may hold anything, ") "
// included.
func (f FS) statFields(pid uint32) ([]string, error) {
	b, err := os.ReadFile(f.pathOf(pid, "/stat"))
	if err != nil {
		return nil, err
	}
	text := string(b)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:]), nil
}

// statNumbers returns fields of /proc/PID/stat, by their numbers in proc_pid_stat(5).
func (f FS) statNumbers(pid uint32, fields ...int) (numbers []uint64, err error) {
	all, err := f.statFields(pid)
	if err != nil {
		return nil, err
	}
	path := f.pathOf(pid, "/stat")
	for _, field := range fields {
		if len(all) <= field-firstField {
			return nil, fmt.Errorf("%s: %d fields after the name", path, len(all))
		}
		n, err := strconv.ParseUint(all[field-firstField], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: field %d: %w", path, field, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
