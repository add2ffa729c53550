package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// OwnPages returns the mappings of our own executable that have the same content as the file: text and constants. It
// leaves out memory that was written to before it became read-only, as the loader does to relocate a
// position-independent executable.
func OwnPages() ([]Mapping, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	exe = strings.TrimSuffix(exe, " (deleted)")
	mappings, err := Default.SelfMappings()
	if err != nil {
		return nil, err
	}
	written, err := writtenTo()
	if err != nil {
		return nil, err
	}
	var own []Mapping
	for _, m := range mappings {
		if m.Path == exe && m.Perms&^Exec == Read && !written[m.Start] {
			own = append(own, m)
		}
	}
	return own, nil
}

// writtenTo returns the start addresses of mappings with pages that differ from the
// file's: "Anonymous" in /proc/PID/smaps (proc_pid_smaps(5)).
func writtenTo() (map[uint64]bool, error) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	written := map[uint64]bool{}
	var start uint64 // of the mapping whose lines follow
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case fields[0] == "Anonymous:":
			written[start] = fields[1] != "0"
		case !strings.HasSuffix(fields[0], ":"):
			first, _, _ := strings.Cut(fields[0], "-")
			if start, err = strconv.ParseUint(first, 16, 64); err != nil {
				return nil, fmt.Errorf("/proc/self/smaps: %w", err)
			}
		}
	}
	return written, nil
}

// ReleasePages removes the pages from the resident memory of this process. The kernel maps pages that are needed again
// from its page cache. Most pages are touched only by initializers: the initializers of the Kubernetes client touch 20
// MB.
func ReleasePages(own []Mapping) error {
	for _, m := range own {
		_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(m.Start), uintptr(m.End-m.Start),
			syscall.MADV_DONTNEED)
		if errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
	}
	return nil
}
