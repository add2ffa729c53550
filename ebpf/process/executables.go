package process

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/procfs"
)

// fileKey tells files apart that have no build ID, and saves opening those that
// were seen before.
type fileKey struct {
	dev, inode   uint64
	size         int64
	mtime, ctime unix.Timespec
}

// executables is the registry of executables. Safe for concurrent use.
type executables struct {
	store Store
	fs    procfs.FS

	mu        sync.Mutex
	next      uint32
	byID      map[uint32]*Executable
	byBuildID map[string]*Executable
	byFile    map[fileKey]*Executable
	vdso      *Executable
}

func newExecutables(store Store, fs procfs.FS) *executables {
	return &executables{store: store, fs: fs, byID: map[uint32]*Executable{}, byBuildID: map[string]*Executable{}, byFile: map[fileKey]*Executable{}}
}

// get returns the executable behind a mapping of a process and takes a
// reference to it, or nil when the mapping has no file. fresh reports that it
// has not been seen before.
func (x *executables) get(pid uint32, m procfs.Mapping, buildID string) (e *Executable, fresh bool) {
	if m.Path != vdsoPath && m.Inode == 0 && buildID == "" {
		return nil, false // anonymous, or made up by the kernel
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e, fresh = x.find(pid, m, buildID)
	if e != nil {
		e.refs++
	}
	return e, fresh
}

func (x *executables) find(pid uint32, m procfs.Mapping, buildID string) (*Executable, bool) {
	if m.Path == vdsoPath {
		fresh := x.vdso == nil
		if fresh {
			x.vdso = x.add(openVDSO())
			x.vdso.refs++ // kept for ever
		}
		return x.vdso, fresh
	}
	if buildID != "" {
		if e, ok := x.byBuildID[buildID]; ok {
			return e, false
		}
	}
	for _, path := range x.paths(pid, m) {
		var st unix.Stat_t
		// By name it must be the same file; with a build ID the mapping has no
		// inode, and open compares the build IDs.
		if unix.Stat(path.name, &st) != nil || path.byName && m.Inode != 0 && st.Ino != m.Inode {
			continue
		}
		key := keyOf(&st)
		if e, ok := x.byFile[key]; ok {
			return e, false
		}
		// What was there a moment ago may be gone: the process goes on.
		if e, fresh := x.open(pid, m, path.name, key, buildID); e != nil {
			return e, fresh
		}
	}
	return nil, false // the process is gone, and its file out of reach
}

// candidate is a path under which a mapped file may be found.
type candidate struct {
	name   string
	byName bool // another file may have come to have that name
}

// paths returns where a mapped file can be opened: by the mapping itself, which
// also works for deleted and hidden files, else by name in the process's root or
// in ours.
func (x *executables) paths(pid uint32, m procfs.Mapping) []candidate {
	return []candidate{{x.fs.MapFilePath(pid, m.Start, m.End), false}, {x.fs.RootPath(pid, m.Path), true}, {m.Path, true}}
}

func keyOf(st *unix.Stat_t) fileKey {
	return fileKey{dev: st.Dev, inode: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// open reads a file seen for the first time. Where that fails, the executable is
// there all the same, with the reason; but nil when there is no such file, or
// another one.
func (x *executables) open(pid uint32, m procfs.Mapping, path string, key fileKey, buildID string) (*Executable, bool) {
	e := &Executable{Path: m.Path, BuildID: buildID, Root: x.fs.RootPath(pid, "")}
	if e.elf, e.Err = elffile.Open(path); procfs.Gone(e.Err) {
		return nil, false
	}
	if e.Err == nil {
		found := e.elf.BuildID()
		if buildID != "" && found != buildID {
			e.close()
			return nil, false // another file of that name
		}
		if known, ok := x.byBuildID[found]; ok && found != "" {
			e.close()
			x.byFile[key] = known
			return known, false
		}
		e.BuildID = found
	}
	x.byFile[key] = x.add(e)
	return e, true
}

// add gives an executable its ID and its room in the tables.
func (x *executables) add(e *Executable) *Executable {
	if e.Err == nil {
		e.Err = e.load(x.store)
	}
	x.number(e)
	if e.BuildID != "" {
		x.byBuildID[e.BuildID] = e
	}
	return e
}

// number gives an executable its ID.
func (x *executables) number(e *Executable) {
	x.next++
	e.ID = x.next
	x.byID[e.ID] = e
}

// keep takes another reference.
func (x *executables) keep(e *Executable) {
	if e == nil {
		return
	}
	x.mu.Lock()
	e.refs++
	x.mu.Unlock()
}

// release gives a reference back.
func (x *executables) release(e *Executable) {
	if e == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.refs--; e.refs == 0 {
		e.unusedSince = time.Now()
	}
}

// byNumber returns an executable by its ID, nil when it has been swept.
func (x *executables) byNumber(id uint32) *Executable {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// tableRest is how long after the last page was built an executable keeps what is
// needed to build more.
const tableRest = 10 * time.Second

// sweep drops the executables that nobody has mapped since a time, and returns
// their IDs.
func (x *executables) sweep(before time.Time) []uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var gone []uint32
	for id, e := range x.byID {
		if e.refs > 0 || !e.unusedSince.Before(before) {
			e.rest(time.Now().Add(-tableRest))
			if e.code != nil {
				e.building.Lock()
				e.code.forgetNames()
				e.building.Unlock()
			}
			continue
		}
		x.store.RemoveDirectory(e.directory)
		e.building.Lock() // a walk may be at it
		e.close()
		e.building.Unlock()
		delete(x.byID, id)
		if x.byBuildID[e.BuildID] == e {
			delete(x.byBuildID, e.BuildID)
		}
		gone = append(gone, id)
	}
	for key, e := range x.byFile {
		if _, ok := x.byID[e.ID]; !ok {
			delete(x.byFile, key)
		}
	}
	return gone
}

// checkCode lets code that processes make be checked.
func (x *executables) checkCode() {
	x.mu.Lock()
	var code []*Executable
	for _, e := range x.byID {
		if e.code != nil && e.refs > 0 {
			code = append(code, e)
		}
	}
	x.mu.Unlock()
	for _, e := range code {
		e.check(x.store, time.Now())
	}
}

func (x *executables) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.byID {
		e.building.Lock()
		e.close()
		e.building.Unlock()
	}
}

func (e *Executable) String() string { return fmt.Sprintf("%s (build ID %q)", e.Path, e.BuildID) }
