package reference

import (
	"os"
	"syscall"
)

// inodeOf returns the inode of a file.
func inodeOf(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
