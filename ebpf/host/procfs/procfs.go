// Package procfs reads the data that a profiler needs from /proc: processes, their mappings, names and control groups.
// Source of the formats: proc(5) and the kernel's Documentation/filesystems/proc.rst.
//
// A process may end at any moment. Reads of a process that has gone return an error for which errors.Is(err,
// fs.ErrNotExist) or errors.Is(err, syscall.ESRCH) holds; Gone reports both.
package procfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Default is the proc file system of this host.
var Default = FS{}

// FS is a proc file system. The zero value reads /proc.
type FS struct {
	Root string // where it is mounted; "" is /proc

	kept io.ReaderAt // memory of the only process, which has ended; nil for this host's processes
}

// Ended returns the file system of a host with one process that has ended. memory is the process's kept memory; its
// files are files of this host.
func Ended(memory io.ReaderAt) FS {
	const nowhere = "/proc/0" // there is no process 0
	return FS{Root: nowhere, kept: memory}
}

func (f FS) rootOrDefault() string {
	if f.Root == "" {
		return "/proc"
	}
	return f.Root
}

func (f FS) pathOf(pid uint32, name string) string {
	return f.rootOrDefault() + "/" + strconv.FormatUint(uint64(pid), 10) + name
}

// Gone reports whether err says that the process, or the requested part of it, no longer exists.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// PIDs returns the processes (thread group leaders) in rising order.
func (f FS) PIDs() ([]uint32, error) { return numbers(f.rootOrDefault()) }

// Threads returns the thread IDs of a process in rising order.
func (f FS) Threads(pid uint32) ([]uint32, error) { return numbers(f.pathOf(pid, "/task")) }

// numbers lists the entries of a directory whose names are numbers.
func numbers(dir string) ([]uint32, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var ids []uint32
	for _, name := range names {
		if id, err := strconv.ParseUint(name, 10, 32); err == nil {
			ids = append(ids, uint32(id))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Comm returns the name of a process, at most 15 bytes of any kind.
func (f FS) Comm(pid uint32) (string, error) {
	b, err := os.ReadFile(f.pathOf(pid, "/comm"))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// ExePath returns the path of the executable as the process sees it, with " (deleted)" at its end if the file is gone.
// Kernel threads have none; the error satisfies Gone.
func (f FS) ExePath(pid uint32) (string, error) { return os.Readlink(f.pathOf(f.thread(pid), "/exe")) }

// MapFilePath returns a path that opens the very file that is mapped at [start, end), even after the file was deleted
// or replaced. It needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE and works while the process has that mapping.
func (f FS) MapFilePath(pid uint32, start, end uint64) string {
	return f.pathOf(f.thread(pid), fmt.Sprintf("/map_files/%x-%x", start, end))
}

// RootPath returns a path that opens path as the process sees it, in its mount namespace and root directory. Symbolic
// links in path that start with a slash lead out of it, to this host's root; paths of mappings have none.
func (f FS) RootPath(pid uint32, path string) string {
	if f.kept != nil {
		return path
	}
	return f.pathOf(f.thread(pid), "/root") + filepath.Clean("/"+path)
}
