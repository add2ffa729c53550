package procfs

import (
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// Magic numbers of file systems that x/sys does not have (Linux, fs/*/; ZFS on Linux).
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
	vfatMagic     = 0x4d44
)

// Local reports whether a file is on a file system of this kernel over a disk or memory. Reads of other files, on FUSE
// or a network, may block forever, and so may the system call that identifies the file system: call Local only where
// that does no harm. A mapping of such a file must not be read at all, because a thread that waits for a page cannot be
// preempted.
//
// root is the root directory of the process that has the file, /proc/PID/root, or "" for a file of this host, as in
// Open. It matters only for overlays: an overlay that users have mounted in their own user namespace may be over FUSE,
// and is not local.
func Local(root string, f *os.File) bool {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &stat); err != nil {
		return false
	}
	if uint32(stat.Type) == unix.OVERLAYFS_SUPER_MAGIC {
		return knownLocal(root, int(f.Fd()))
	}
	return isLocalMagic(uint32(stat.Type))
}

// isLocalMagic reports whether a magic number is of a file system of this kernel over a disk or memory.
func isLocalMagic(magic uint32) bool {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, zfsMagic,
		bcachefsMagic,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC,
		unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, unix.ISOFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC,
		unix.REISERFS_SUPER_MAGIC,
		unix.EXFAT_SUPER_MAGIC, vfatMagic:
		return true
	}
	return false
}

// localKinds are the names in mountinfo of the local file systems and of the file systems that the kernel makes up,
// whose files openFound refuses.
var localKinds = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "f2fs": true, "zfs": true, "bcachefs": true,
	"tmpfs": true, "devtmpfs": true, "ramfs": true, "rootfs": true, "hugetlbfs": true,
	"squashfs": true, "erofs": true, "iso9660": true, "nilfs2": true, "reiserfs": true,
	"exfat": true, "vfat": true, "msdos": true,
	"proc": true, "sysfs": true, "debugfs": true, "tracefs": true, "securityfs": true, "cgroup": true, "cgroup2": true,
	"bpf": true, "devpts": true,
}

// knownLocal reports whether the file of a descriptor is certainly local, or made up by the kernel. It makes no
// requests to the file system: the descriptor may be one of O_PATH. root is as in Local.
func knownLocal(root string, fd int) bool {
	id, ok := mountID(fd)
	if !ok {
		return false
	}
	process := "/proc/self"
	if root != "" {
		process = path.Dir(path.Clean(root))
	}
	m := mountWith(process, id)
	if m.kind == "" { // the file may still be one of this host
		m = mountWith("/proc/self", id)
	}
	switch m.kind {
	case "overlay":
		initial := path.Join(path.Dir(process), "1")
		// After chroot(2), the names of the layers are right in the process's list of mounts only.
		return (m.host || mountedOn(initial, m.device)) && !overForeign(initial, m.layers) &&
			!overForeign(process, m.layers)
	case "":
		return id == memoryMount() || id == rootMount()
	}
	return localKinds[m.kind]
}

// rootMount returns the mount of this process's root directory if it is local, or 0. After chroot(2) to a directory
// that is no mount point, no list of mounts has it. The file system gets a request: this program runs from it.
var rootMount = sync.OnceValue(func() uint64 {
	root, err := os.Open("/")
	if err != nil {
		return 0
	}
	defer root.Close()
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &stat); err != nil || !isLocalMagic(uint32(stat.Type)) {
		return 0
	}
	id, _ := mountID(int(root.Fd()))
	return id
})

// memoryMount returns the mount of unnamed files in memory, memfd_create(2), which is in no namespace.
var memoryMount = sync.OnceValue(func() uint64 {
	fd, err := unix.MemfdCreate("mount", unix.MFD_CLOEXEC)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	id, _ := mountID(fd)
	return id
})
