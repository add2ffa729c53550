package procfs

import (
	"bufio"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxMounts bounds the bytes that are read of the mounts of one namespace: users can have 100,000 mounts with long
// names.
const MaxMounts = 4 << 20

// maxMountLine bounds the bytes that are read of the line of a mount. The options of an overlay, at its end, take up to
// a page.
const maxMountLine = 16 << 10

// initialUserNamespace is the inode of the user namespace from which all user namespaces descend (Linux,
// include/uapi/linux/nsfs.h).
const initialUserNamespace = 0xeffffffd

// mount is the mount of a file.
type mount struct {
	device, kind string   // of its file system; "" if the mount was not found
	layers       []string // folders of an overlay
	// host says that the administrator of this host has mounted it: no other user can attach a mount to a namespace
	// that belongs to the initial user namespace. If the administrator runs a container in a user namespace, its mounts
	// are also mounted in the namespace of PID 1.
	host bool
}

// mountID returns the ID of the mount through which a file was opened. The mount keeps the ID at least until the file
// is closed.
func mountID(fd int) (id uint64, ok bool) {
	var stat unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stat)
	return stat.Mnt_id, err == nil && stat.Mask&unix.STATX_MNT_ID != 0
}

// mountWith returns the mount with an ID in the namespace of a process.
func mountWith(process string, id uint64) (m mount) {
	want := strconv.FormatUint(id, 10)
	m.host = eachMount(process, func(fields []string) bool {
		if fields[0] != want {
			return true
		}
		var options string
		_, m.kind, options = placeOf(fields[3])
		m.device, m.layers = fields[2], layersIn(options)
		return false
	})
	return m
}

// placeOf splits the rest of a mount's line, see eachMount.
func placeOf(rest string) (point, kind, options string) {
	// /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
	before, after, _ := strings.Cut(rest, " - ")
	if fields := strings.Fields(before); len(fields) > 1 {
		point = fields[1]
	}
	if fields := strings.Fields(after); len(fields) > 2 {
		return point, fields[0], fields[2]
	}
	return point, "", ""
}

// layersIn returns the folders in the options of an overlay (Linux, Documentation/filesystems/overlayfs.rst), under the
// names that the mounting user gave.
func layersIn(options string) (layers []string) {
	for option := range strings.SplitSeq(options, ",") {
		switch name, value, _ := strings.Cut(option, "="); name {
		case "lowerdir", "lowerdir+", "datadir+", "upperdir":
			layers = append(layers, strings.FieldsFunc(value, func(r rune) bool { return r == ':' })...)
		}
	}
	return layers
}

// overForeign reports whether a folder of an overlay is on a file system that is not local, by the mounts that a
// process can see. It finds all such file systems if the process is in the mount namespace, and below the root
// directory, of the mounting user. Only the end of a relative name is known.
func overForeign(process string, layers []string) bool {
	type on struct {
		point string
		local bool
	}
	found := make([]on, len(layers))
	eachMount(process, func(fields []string) bool {
		point, kind, _ := placeOf(fields[3])
		for i, layer := range layers {
			below := layer == point || strings.HasPrefix(layer, strings.TrimSuffix(point, "/")+"/") ||
				!path.IsAbs(layer) && strings.HasSuffix(point, "/"+layer)
			if below && len(point) >= len(found[i].point) { // a later mount covers an earlier one
				found[i] = on{point, localKinds[kind] || kind == "overlay"}
			}
		}
		return true
	})
	return slices.ContainsFunc(found, func(m on) bool { return m.point != "" && !m.local })
}

// mountedOn reports whether a device is mounted in the namespace of a process, and the namespace belongs to the host's
// user namespace.
func mountedOn(process, device string) bool {
	found := false
	host := eachMount(process, func(fields []string) bool {
		found = fields[2] == device
		return !found
	})
	return found && host
}

// eachMount calls f for the mounts that a process can see, with the first three fields of the mount's line and the
// rest, until f returns false. It reports whether the mount namespace belongs to the host's user namespace.
func eachMount(process string, f func(fields []string) bool) (host bool) {
	dir, err := unix.Open(process, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	mounts, err := openAt(dir, "mountinfo") // it keeps the namespace that the process is in now
	if err != nil {
		return false
	}
	defer mounts.Close()
	// A process that is in a namespace of the host after that was also in one before: only the host's administrator
	// could have moved it there.
	host = hostOwns(dir)
	in := bufio.NewReaderSize(io.LimitReader(mounts, MaxMounts), maxMountLine)
	for {
		line, more, err := in.ReadLine()
		for more && err == nil { // the start is enough
			_, more, err = in.ReadLine()
		}
		if err != nil {
			return host
		}
		// 36 35 98:0 and the rest, see placeOf
		fields := strings.SplitN(string(line), " ", 4)
		if len(fields) == 4 && !f(fields) {
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
