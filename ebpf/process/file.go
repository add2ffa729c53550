package process

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// fileKey is the identity of a file. It differs between files, and changes when a file is written to. The owner of a
// file cannot set ctime back.
type fileKey struct {
	dev, inode   uint64
	size         int64
	mtime, ctime unix.Timespec
}

func keyOf(st *unix.Stat_t) fileKey {
	return fileKey{dev: st.Dev, inode: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// writtenSince reports whether a file was written to since it had the identity before. Changes of only its name, owner
// or mode do not count.
func (k fileKey) writtenSince(before fileKey) bool {
	return k.size != before.size || k.mtime != before.mtime
}

// mappedFile identifies the file of a mapping as the kernel reports it, in /proc/PID/maps and in perf's records.
type mappedFile struct{ dev, inode uint64 }

func mappedFileOf(m *procfs.Mapping) mappedFile { return mappedFile{m.Dev, m.Inode} }

// knownFile is an executable that is recognized by the kernel's report of a mapping.
type knownFile struct {
	exe        *Executable
	path       string
	generation uint64
	// exact says that stat(2) reports the same device and inode. It does not on btrfs, where mappings show one device
	// for all subvolumes, nor on overlayfs with old kernels.
	exact bool
	// ambiguous says that another file was once reported with the same device and inode.
	ambiguous bool
	checked   time.Time // when the file was last identified
}

// wasStill reports whether the file was the executable's at a time, without opening it. No other file can get its inode
// while it is held open. One check serves all mappings before it, which come many at once.
func (k *knownFile) wasStill(at uint64) bool {
	e := k.exe
	if !k.exact || e.stale || e.remote && time.Since(k.checked) > copyChecked {
		return false
	}
	if at <= e.unchangedUntil {
		return true
	}
	now := clock.Monotonic()
	if !e.unchanged() {
		return false
	}
	e.unchangedUntil = now
	return true
}

// couldBe reports whether a mapping that cannot be opened, now or ever, is of the file. That is certain if the file is
// held open and was not written to. Otherwise, the whole report must be the same, and no other file may ever have been
// reported like it.
func (k *knownFile) couldBe(m *procfs.Mapping) bool {
	if k.ambiguous || k.exe.stale {
		return false
	}
	if now, before, held := k.exe.keysNow(); k.exact && held {
		return !now.writtenSince(before)
	}
	return m.Path == k.path && m.Generation == k.generation
}

// candidate is a path under which a mapped file may be found.
type candidate struct {
	root, name string
	byName     bool // another file may have that name now
}

// candidates returns the paths under which a mapped file can be opened: the mapping itself, which also works for
// deleted and hidden files, then the name in the process's root, then the name in the root of this process.
func candidates(fs procfs.FS, pid uint32, m *procfs.Mapping) []candidate {
	root := fs.RootPath(pid, "")
	return []candidate{{root, fs.MapFilePath(pid, m.Start, m.End), false}, {root, m.Path, true}, {"", m.Path, true}}
}

// openFile opens the file that c names. st is its status, or nil if unknown.
func (c candidate) openFile() (f procfs.File, st *unix.Stat_t, err error) {
	if c.byName {
		f, err = procfs.Open(c.root, c.name)
	} else {
		f, err = procfs.OpenLink(c.root, c.name)
	}
	if err == nil {
		if st, err = procfs.StatOf(f); err != nil {
			f.Close()
			return nil, nil, err
		}
		return f, st, nil
	}
	var refused *procfs.RefusedError
	if errors.As(err, &refused) {
		st = &refused.Stat
	}
	return nil, st, err
}

// holds reports whether st, the status of the file that c names, is of m's file. The process may have started another
// program since m was reported, so even its mapping may be of another file.
func (c candidate) holds(m *procfs.Mapping, st *unix.Stat_t) bool {
	if st.Ino == m.Inode && (st.Dev == m.Dev || anonymousDevice(st.Dev)) {
		return true
	}
	if c.byName {
		return false
	}
	// overlayfs may report the inode of its lower layer. In that case, the path of the mapping decides.
	path, err := os.Readlink(c.name)
	return err == nil && anonymousDevice(st.Dev) && (path == m.Path || path == m.Path+" (deleted)")
}

// anonymousDevice reports whether a device number stands for no device, as on btrfs, overlayfs and file systems in
// memory. The kernel may report another number for the same file.
func anonymousDevice(dev uint64) bool { return unix.Major(dev) == 0 }

// trust describes who can change a file, because data read from the file may be used for other files.
type trust struct {
	owner   uint32
	private bool // users other than the owner and root can change it, or its content may vary
}

// trustOf returns the trust in an open file. The content of a file system in user space is up to the user who mounted
// it.
func trustOf(fd int, st *unix.Stat_t) trust {
	const fuse = 0x65735546 // FUSE_SUPER_MAGIC
	t := trust{owner: st.Uid}
	var fs unix.Statfs_t
	t.private = unix.Fstatfs(fd, &fs) != nil || uint32(fs.Type) == fuse ||
		st.Mode&unix.S_IWOTH != 0 || st.Mode&unix.S_IWGRP != 0 && st.Gid != st.Uid
	return t
}

// allows reports whether data read from a file with trust t may be used for a file with trust u: a user who can change
// the first file must also be able to change the second.
func (t trust) allows(u trust) bool {
	return !t.private && (t.owner == 0 || t.owner == u.owner && !u.private)
}
