package procfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Errors of opening files.
var (
	// ErrNotRegular says that a path names a directory, device, pipe or socket, or
	// a file that the kernel makes up.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotOwned says that a file belongs to a user who has no say here.
	ErrNotOwned = errors.New("belongs to another user")
)

// OpenBelow opens a regular file for reading whose absolute path is seen from the
// root directory root. Symbolic links, absolute ones too, stay inside it: a
// container must not send us to files of the host. With root "" the path is one of
// this host, whose links of /proc are followed too.
//
// Other files are not opened at all, for opening one can have an effect: it wakes
// the other end of a pipe, rewinds a tape, starts a watchdog.
func OpenBelow(root, name string) (*os.File, error) { return openBelow(root, name, nil) }

// OpenOwnedBelow is OpenBelow for a file that is believed only if it belongs to
// the user uid or to root. The error is ErrNotOwned if it does not.
func OpenOwnedBelow(root, name string, uid uint32) (*os.File, error) {
	return openBelow(root, name, func(stat *unix.Stat_t) error {
		if stat.Uid != uid && stat.Uid != 0 {
			return fmt.Errorf("%w: user %d, not %d", ErrNotOwned, stat.Uid, uid)
		}
		return nil
	})
}

// OpenRegular opens a regular file of this host for reading, and no other file;
// see OpenBelow.
func OpenRegular(name string) (*os.File, error) { return openBelow("", name, nil) }

func openBelow(root, name string, accept func(*unix.Stat_t) error) (*os.File, error) {
	path, err := find(root, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(path)
	fd, err := reopen(path, accept)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root + name, Err: err}
	}
	// Else os would have the runtime poll the file, and a FUSE server that does not answer
	// to that would stop all that waits for the network.
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "fcntl", Path: root + name, Err: err}
	}
	return os.NewFile(uintptr(fd), root+name), nil
}

// find returns a descriptor that stands for a file, which it does not open.
func find(root, name string) (fd int, err error) {
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

// openat2 tries again when the kernel could not be sure that nothing moved.
func openat2(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	for range 8 {
		fd, err = unix.Openat2(dir, name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// reopen opens the very file that path, opened with O_PATH, stands for, if it is a
// regular one that is accepted. nil accepts all. It does not wait for the holder
// of a lease (fcntl(2)).
func reopen(path int, accept func(*unix.Stat_t) error) (fd int, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(path, &stat); err != nil {
		return 0, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || madeUp(path) {
		return 0, ErrNotRegular
	}
	if accept != nil {
		if err := accept(&stat); err != nil {
			return 0, err
		}
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", path), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC,
		0)
}

// madeUp reports whether a file is in one of the file systems through which the
// kernel shows itself. Their files look regular, but reading them may block or use
// up what others want to read.
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
