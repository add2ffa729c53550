package procfs

import "strings"

// Perms are the permissions of a mapping.
type Perms uint8

// The letters of the perms column of /proc/PID/maps.
const (
	Read Perms = 1 << iota
	Write
	Exec
	Shared
)

// String returns the permissions as /proc/PID/maps shows them.
func (p Perms) String() string {
	b := []byte("---p")
	if p&Read != 0 {
		b[0] = 'r'
	}
	if p&Write != 0 {
		b[1] = 'w'
	}
	if p&Exec != 0 {
		b[2] = 'x'
	}
	if p&Shared != 0 {
		b[3] = 's'
	}
	return string(b)
}

// Mapping is one mapped range of a process's addresses.
type Mapping struct {
	Start, End uint64 // addresses, End exclusive
	Offset     uint64 // of Start in the file
	Perms      Perms
	Deleted    bool   // the file no longer has a name
	Shortened  bool   // Path has only its last element, see MaxPaths
	Dev        uint64 // device of the file, as unix.Mkdev; on some file systems (btrfs, overlayfs) not what stat says
	Inode      uint64 // 0 if no file
	Generation uint64 // of the inode, as in perf's records; /proc does not report it
	// Path is the file's path in the process's mount namespace, or a name in brackets, or empty for anonymous memory.
	// Line feeds are decoded and the mark of a deleted file is cut off. The kernel writes a line feed as \012 but does
	// not escape a backslash, so the path is wrong if a file's name really holds these characters: open the file
	// through MapFilePath.
	Path string
}

// VDSO is the Path of the code that the kernel maps into every process.
const VDSO = "[vdso]"

// HasFile reports whether a regular file, with or without a name, or a memfd is mapped: a file that can be opened
// through MapFilePath.
func (m *Mapping) HasFile() bool {
	return m.Inode != 0 && strings.HasPrefix(m.Path, "/") && !strings.HasPrefix(m.Path, "//")
}

// Memfd reports whether the file was made by memfd_create.
func (m *Mapping) Memfd() bool { return strings.HasPrefix(m.Path, "/memfd:") }

// Contains reports whether addr is in the mapping.
func (m *Mapping) Contains(addr uint64) bool { return addr >= m.Start && addr < m.End }
