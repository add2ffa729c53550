package process

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/procfs"
)

// fileKey is the identity of a file: another file has another one, and so has the
// same file once it was written to. ctime cannot be set back by its owner.
type fileKey struct {
	dev, inode   uint64
	size         int64
	mtime, ctime unix.Timespec
}

func keyOf(st *unix.Stat_t) fileKey {
	return fileKey{dev: st.Dev, inode: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// writtenSince reports whether a file that was as before was written to, unless all that
// changed is its name, its owner or its mode.
func (k fileKey) writtenSince(before fileKey) bool {
	return k.size != before.size || k.mtime != before.mtime
}

// mappedFile is what the kernel says of the file of a mapping, in /proc/PID/maps and
// in perf's records.
type mappedFile struct{ dev, inode uint64 }

func mappedFileOf(m *procfs.Mapping) mappedFile { return mappedFile{m.Dev, m.Inode} }

// knownFile is an executable by what the kernel said of a mapping of it.
type knownFile struct {
	exe        *Executable
	path       string
	generation uint64
	// exact says that stat(2) says the same. Not so on btrfs, whose subvolumes have
	// one device here, nor on overlayfs with old kernels.
	exact bool
	// ambiguous says that another file was once reported alike.
	ambiguous bool
	checked   time.Time // when the file was looked at
}

// wasStill reports whether the file was the executable's at a time, without opening it:
// nobody can have got its inode while it is held open. One look is enough for all
// mappings of before it, which come many at once.
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

// couldBe reports whether a mapping that cannot be opened any more, or not now, is of the file. That
// is certain if the file is held open and was not written to; else all that was
// reported must be the same, and no other file ever have been reported so.
func (k *knownFile) couldBe(m *procfs.Mapping) bool {
	if k.ambiguous || k.exe.stale {
		return false
	}
	if now, before, held := k.exe.now(); k.exact && held {
		return !now.writtenSince(before)
	}
	return m.Path == k.path && m.Generation == k.generation
}

// candidate is a path under which a mapped file may be found.
type candidate struct {
	root, name string
	byName     bool // another file may have come to have that name
}

// candidates returns where a mapped file can be opened: by the mapping itself, which
// also works for deleted and hidden files, else by name in the process's root or
// in ours.
func candidates(fs procfs.FS, pid uint32, m *procfs.Mapping) []candidate {
	root := fs.RootPath(pid, "")
	return []candidate{{root, fs.MapFilePath(pid, m.Start, m.End), false}, {root, m.Path, true}, {"", m.Path, true}}
}

// open opens what c names. st is about that; nil if it is not known.
func (c candidate) open() (f procfs.File, st *unix.Stat_t, err error) {
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

// holds reports whether st, of what c names, is the file of m. The process may have
// started another program since m was reported, so even its mapping may be another.
func (c candidate) holds(m *procfs.Mapping, st *unix.Stat_t) bool {
	if st.Ino == m.Inode && (st.Dev == m.Dev || anonymousDevice(st.Dev)) {
		return true
	}
	if c.byName {
		return false
	}
	// overlayfs may report the inode below it: then the mapping's path decides.
	path, err := os.Readlink(c.name)
	return err == nil && anonymousDevice(st.Dev) && (path == m.Path || path == m.Path+" (deleted)")
}

// anonymousDevice reports whether a device number stands for no device, as that of
// btrfs, overlayfs and of file systems in memory; the kernel may report another one
// for the same file.
func anonymousDevice(dev uint64) bool { return unix.Major(dev) == 0 }

// trust is who can change a file, for what is read of it may be used for others.
type trust struct {
	owner   uint32
	private bool // others than the owner and root can change it, or it is nowhere for sure
}

// trustOf returns who can change an open file. What a file system in user space
// shows is up to the one who has mounted it.
func trustOf(fd int, st *unix.Stat_t) trust {
	const fuse = 0x65735546 // FUSE_SUPER_MAGIC
	t := trust{owner: st.Uid}
	var fs unix.Statfs_t
	t.private = unix.Fstatfs(fd, &fs) != nil || uint32(fs.Type) == fuse ||
		st.Mode&unix.S_IWOTH != 0 || st.Mode&unix.S_IWGRP != 0 && st.Gid != st.Uid
	return t
}

// of reports whether what is read of a file that t is about may be used for one that
// u is about: nobody can change the one who could not change the other.
func (t trust) of(u trust) bool {
	return !t.private && (t.owner == 0 || t.owner == u.owner && !u.private)
}
