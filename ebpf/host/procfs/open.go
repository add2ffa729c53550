package procfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Errors of opening files.
var (
	// ErrNotRegular says that a path names a directory, device, pipe or socket, or
	// a file that the kernel makes up.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotOwned says that a file belongs to a user whose files are not accepted.
	ErrNotOwned = errors.New("belongs to another user")

	errMayHang = errors.New("the file system may not answer")
)

// OpenRegular opens a regular file of this host for reading, and no other kind of file; see Open. Opening and reading
// it may block forever, so it is only for files that the administrator names.
func OpenRegular(name string) (*os.File, error) { return openBelow("", name, nil) }

// acceptOwner returns a function that accepts only files of a user and of root, or nil for anyOwner.
func acceptOwner(owner int64) func(*unix.Stat_t) error {
	if owner == anyOwner {
		return nil
	}
	return func(stat *unix.Stat_t) error {
		if int64(stat.Uid) != owner && stat.Uid != 0 {
			return fmt.Errorf("%w: user %d, not %d", ErrNotOwned, stat.Uid, owner)
		}
		return nil
	}
}

func openBelow(root, name string, accept func(*unix.Stat_t) error) (*os.File, error) {
	path, err := findFile(root, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(path)
	return openFound(path, root+name, accept)
}

// openFound opens the file that path, opened with O_PATH, stands for.
func openFound(path int, name string, accept func(*unix.Stat_t) error) (*os.File, error) {
	fd, err := reopen(path, accept)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	// Otherwise, os would have the runtime poll the file. If a FUSE server does not answer the poll, everything that
	// waits for the network stops.
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "fcntl", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// resolveCached makes openat2(2) fail with EAGAIN if it would make a request to a file system (linux/openat2.h).
const resolveCached = 0x20

// findQuickly is like find, but makes requests only to local file systems. The error is errMayHang if that is not
// enough.
func findQuickly(root, name string) (fd int, err error) {
	top, resolve := root, uint64(unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if root == "" {
		top, resolve = "/", 0
	}
	dir, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: top, Err: err}
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_XDEV}
	below := strings.TrimLeft(name, "/")
	if !knownLocal(root, dir) {
		how.Resolve = resolve | resolveCached
	}
	fd, err = openat2(dir, below, &how)
	if err == unix.EXDEV {
		how.Resolve = resolve | resolveCached
		fd, err = openat2(dir, below, &how)
	}
	switch err {
	case nil:
		return fd, nil
	case unix.EAGAIN, unix.EINVAL, unix.ENOSYS: // Linux knows RESOLVE_CACHED since 5.12
		return 0, errMayHang
	}
	return 0, &os.PathError{Op: "openat2", Path: root + name, Err: err}
}

// findLink returns a descriptor of the file that a link of /proc leads to. It makes no request to the file's file
// system.
func findLink(name string) (fd int, err error) { return findFile("", name) }

// findFile returns a descriptor of a file without opening the file.
func findFile(root, name string) (fd int, err error) {
	if root == "" {
		if fd, err = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return 0, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if fd, err = openat2(dir, name, &how); err != nil {
		return 0, &os.PathError{Op: "openat2", Path: root + name, Err: err}
	}
	return fd, nil
}

// openat2 tries again if the kernel cannot be sure that no folder has moved.
func openat2(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	for range 8 {
		fd, err = unix.Openat2(dir, name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// reopen opens the very file that path, opened with O_PATH, stands for, if it is a regular file and accepted. A nil
// accept accepts all files. reopen does not wait for the holder of a lease (fcntl(2)).
func reopen(path int, accept func(*unix.Stat_t) error) (fd int, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(path, &stat); err != nil {
		return 0, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || madeUp(path) {
		err = ErrNotRegular
	} else if accept != nil {
		err = accept(&stat)
	}
	if err == nil {
		const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", path), flags, 0)
	}
	if err != nil {
		return 0, &RefusedError{stat, err}
	}
	return fd, nil
}

// RefusedError says that a file was found but not opened.
type RefusedError struct {
	Stat unix.Stat_t // of the file
	Err  error       // the reason
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// madeUp reports whether a file is in a file system through which the kernel shows itself. Such files look regular, but
// reading them may block, or use up data that other programs want to read.
func madeUp(fd int) bool {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err != nil {
		return false
	}
	switch uint32(stat.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
		unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC, unix.DEVPTS_SUPER_MAGIC:
		return true
	}
	return false
}

// SameFolder reports whether two paths of folders of /proc or this host lead to the same folder. It makes no request to
// a file system that may not answer.
func SameFolder(a, b string) bool {
	var stats [2]unix.Statx_t
	for i, name := range []string{a, b} {
		dir, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		err = unix.Statx(dir, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &stats[i])
		unix.Close(dir)
		if err != nil {
			return false
		}
	}
	return stats[0].Ino == stats[1].Ino && stats[0].Dev_major == stats[1].Dev_major &&
		stats[0].Dev_minor == stats[1].Dev_minor
}

// ReadLocalDir describes the entries of a folder below the root directory root, by name, if the folder is local.
func ReadLocalDir(root, name string) ([]os.FileInfo, error) {
	path, err := findQuickly(root, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(path)
	if !knownLocal(root, path) {
		return nil, errMayHang
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", path))
	if err != nil {
		return nil, err
	}
	var infos []os.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // otherwise it is gone
			infos = append(infos, info)
		}
	}
	return infos, nil
}
