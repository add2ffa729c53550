package reference

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// vdsoPath is the name of the code that the kernel maps into every process.
const vdsoPath = "[vdso]"

// device is the number of a file system's device.
type device struct{ major, minor uint64 }

// mapping is an executable mapping of a process.
type mapping struct {
	start, end uint64
	offset     uint64 // offset in the file
	device     device
	inode      uint64 // 0 if there is no file
	path       string
}

// readMaps reads the executable mappings of a process (proc_pid_maps(5)).
func readMaps(pid int) ([]mapping, error) {
	name := fmt.Sprintf("/proc/%d/maps", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []mapping
	for line := range strings.Lines(string(text)) {
		m, executable, err := parseMapping(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		if executable {
			all = append(all, m)
		}
	}
	return all, nil
}

// parseMapping parses "START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH".
func parseMapping(line string) (m mapping, executable bool, err error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 {
		return m, false, fmt.Errorf("%d fields", len(fields))
	}
	number := func(text string, base int) uint64 {
		v, e := strconv.ParseUint(text, base, 64)
		if e != nil && err == nil {
			err = e
		}
		return v
	}
	start, end, _ := strings.Cut(fields[0], "-")
	major, minor, _ := strings.Cut(fields[3], ":")
	m = mapping{
		start: number(start, 16), end: number(end, 16), offset: number(fields[2], 16),
		device: device{number(major, 16), number(minor, 16)}, inode: number(fields[4], 10),
	}
	if len(fields) == 6 {
		m.path = strings.TrimLeft(fields[5], " ")
	}
	return m, strings.Contains(fields[1], "x"), err
}
