package procfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// Magic numbers of file systems that x/sys does not have (Linux, fs/*/; ZFS on Linux).
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
	vfatMagic     = 0x4d44
)

// Local reports whether a file is on a file system of this kernel over a disk or
// memory. Reading others, of FUSE or a network, may take for ever, and so may the
// system call that says which it is: call it where that is no harm. A mapping of such
// a file must not be read at all: a thread that waits for a page cannot be preempted.
//
// Root is the root directory of the process that has the file, /proc/PID/root, or "" for
// one of this host, as in OpenBelow. It matters for overlays only: what users have
// mounted in a user namespace of their own may be over FUSE, and is not local.
func Local(root string, f *os.File) bool {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &stat); err != nil {
		return false
	}
	switch uint32(stat.Type) {
	case unix.OVERLAYFS_SUPER_MAGIC:
		return mountedByHost(root, f)
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
