package procfs

import (
	"bufio"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxMounts bounds what is read of the mounts of one namespace: users can have 100,000
// of them, with long names.
const MaxMounts = 4 << 20

// initialUserNamespace is the inode of the user namespace that all others descend from
// (Linux, include/uapi/linux/nsfs.h).
const initialUserNamespace = 0xeffffffd

// mountedByHost reports whether the file system of a file was mounted with the rights of
// this host's administrator: nobody else can attach a mount to a namespace that belongs to
// the initial user namespace. The file's own mount is in such a one, or, for containers
// that the administrator runs in a user namespace, another mount of its file system is in
// that of PID 1. Root is as in Local.
func mountedByHost(root string, f *os.File) bool {
	process := "/proc/self"
	if root != "" {
		process = path.Dir(path.Clean(root))
	}
	id, ok := mountID(f)
	if !ok {
		return false
	}
	device, host := deviceOfMount(process, id)
	if device == "" { // the file may be this host's all the same
		device, host = deviceOfMount("/proc/self", id)
	}
	return device != "" && (host || mountedOn(path.Join(path.Dir(process), "1"), device))
}

// mountID returns the ID of the mount through which a file was opened. It stays that of
// this mount at least until the file is closed.
func mountID(f *os.File) (id uint64, ok bool) {
	var stat unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stat)
	return stat.Mnt_id, err == nil && stat.Mask&unix.STATX_MNT_ID != 0
}

// deviceOfMount returns the device of the file system that is mounted with an ID in the
// namespace of a process, "" if there is none, and whether that namespace belongs to the
// host's user namespace.
func deviceOfMount(process string, id uint64) (device string, host bool) {
	want := strconv.FormatUint(id, 10)
	host = eachMount(process, func(id, dev string) bool {
		if id == want {
			device = dev
		}
		return device == ""
	})
	return device, host
}

// mountedOn reports whether a device is mounted in the namespace of a process, and that
// belongs to the host's user namespace.
func mountedOn(process, device string) bool {
	found := false
	host := eachMount(process, func(_, dev string) bool {
		found = dev == device
		return !found
	})
	return found && host
}

// eachMount calls f for the mounts that a process can see until f returns false, and
// reports whether their namespace belongs to the host's user namespace.
func eachMount(process string, f func(id, device string) bool) (host bool) {
	dir, err := unix.Open(process, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	mounts, err := openAt(dir, "mountinfo") // it stays in the namespace that the process is in now
	if err != nil {
		return false
	}
	defer mounts.Close()
	// A process that is in a namespace of the host after that was in one before: only the
	// host's administrator could have brought it there.
	host = hostOwns(dir)
	in := bufio.NewReader(io.LimitReader(mounts, MaxMounts))
	for {
		line, more, err := in.ReadLine()
		for more && err == nil { // the start is enough
			_, more, err = in.ReadLine()
		}
		if err != nil {
			return host
		}
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
		fields := strings.SplitN(string(line), " ", 4)
		if len(fields) == 4 && !f(fields[0], fields[2]) {
			return host
		}
	}
}

// hostOwns reports whether the mount namespace of a process belongs to the initial user
// namespace.
func hostOwns(process int) bool {
	mounts, err := openAt(process, "ns/mnt")
	if err != nil {
		return false
	}
	defer mounts.Close()
	owner, err := unix.IoctlRetInt(int(mounts.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return false
	}
	defer unix.Close(owner)
	var stat unix.Stat_t
	return unix.Fstat(owner, &stat) == nil && stat.Ino == initialUserNamespace
}

func openAt(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
