package procfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// fuseControl is the file system in which the kernel shows all connections to FUSE servers, fusectl: as it is
// mounted, or mounted for nobody to see but us.
var fuseControl struct {
	mu     sync.Mutex
	dir    int // 0: not mounted
	failed bool
}

// fuseMounted reports whether this host has a file system of FUSE, or that cannot be known. It takes two microseconds.
func fuseMounted() bool {
	fuseControl.mu.Lock()
	defer fuseControl.mu.Unlock()
	if fuseControl.dir == 0 && !fuseControl.failed {
		if unix.Access("/sys/fs/fuse", unix.F_OK) == unix.ENOENT { // to mount it would load the kernel's module
			return false
		}
		dir, err := mountFUSEControl()
		fuseControl.dir, fuseControl.failed = dir, err != nil
	}
	if fuseControl.failed {
		return true
	}
	var stat unix.Stat_t
	const alone = 2 // links to a folder without folders
	return unix.Fstat(fuseControl.dir, &stat) != nil || stat.Nlink > alone
}

func mountFUSEControl() (dir int, err error) {
	const magic = 0x65735543 // FUSE_CTL_SUPER_MAGIC
	if dir, err = unix.Open("/sys/fs/fuse/connections", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		var stat unix.Statfs_t
		if unix.Fstatfs(dir, &stat) == nil && stat.Type == magic {
			return dir, nil // where it is mounted no right is needed
		}
		unix.Close(dir)
	}
	context, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return 0, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
}
