package procfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// OpenBelow opens a file whose absolute path is seen from the root directory
// root. Symbolic links, absolute ones too, stay inside it: a container must not
// send us to files of the host.
func OpenBelow(root, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if root == "" || root == "/" {
		return os.OpenFile(name, flags, 0)
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	fd, err := openat2(dir, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: root + name, Err: err}
	}
	return os.NewFile(uintptr(fd), root+name), nil
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
