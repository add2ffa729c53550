package process

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// executables is the registry of executables. Safe for concurrent use.
type executables struct {
	store     Store
	fs        procfs.FS
	languages []language.Language

	mu       sync.Mutex
	next     unwind.ExeID
	byID     map[unwind.ExeID]*Executable
	code     map[unwind.ExeID]*JITCode // by the ID of the executable that stands for the code
	byFile   map[fileKey]*Executable
	byMapped map[mappedFile]*knownFile
	vdso     *Executable
	vdsos32  map[[sha256.Size]byte]*Executable // of 32-bit tasks, by content
	sharing  sharing
	work     *filework.Pool
	debug    *debugfile.Finder
	slow     slow
	patience time.Duration  // limit of the wait for a file that is not known yet
	opening  waits          // for files
	indexes  waits          // for indexes
	copies   elffile.Copies // of files that may hang
}

func newExecutables(store Store, fs procfs.FS, work *filework.Pool, languages []language.Language) *executables {
	return &executables{
		store: store, fs: fs, languages: languages, work: work, debug: debugfile.New(work, nil), patience: openPatience,
		opening: newWaits(openAtOnce, openShare), indexes: newWaits(indexAtOnce, indexShare),
		vdsos32: map[[sha256.Size]byte]*Executable{},
		byID:    map[unwind.ExeID]*Executable{}, code: map[unwind.ExeID]*JITCode{},
		byFile: map[fileKey]*Executable{}, byMapped: map[mappedFile]*knownFile{},
		slow:    slow{byMapped: map[mappedFile]*Executable{}, tried: map[uint32]time.Time{}},
		sharing: sharing{byShape: map[string][]*image{}},
	}
}

// hasExecutable reports whether a mapping has an executable. Other mappings are anonymous, or made up by the kernel.
func hasExecutable(m *procfs.Mapping) bool { return m.Inode != 0 || m.Path == procfs.VDSO }

// getExecutable returns the executable of a mapping that a process had at a time, and takes a reference to it. It
// returns nil if the mapping has no file. fresh reports whether the executable is new.
func (x *executables) getExecutable(at uint64, pid uint32, m procfs.Mapping) (e *Executable, fresh bool) {
	if !hasExecutable(&m) {
		return nil, false
	}
	if e, fresh = x.known(at, &m); e != nil {
		return e, fresh
	}
	if isVDSO32(&m) {
		return x.vdso32(pid, &m)
	}
	return x.openSlowly(pid, m)
}

// known returns the executable of a mapping at a time, and takes a reference to it, if it is certain without opening a
// file.
func (x *executables) known(at uint64, m *procfs.Mapping) (*Executable, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if isVDSO32(m) {
		return nil, false
	}
	if m.Path == procfs.VDSO {
		fresh := x.vdso == nil
		if fresh {
			x.vdso = x.addExecutable(openVDSO(x.fs, m))
			x.vdso.refs++ // never freed
		}
		x.vdso.refs++
		return x.vdso, fresh
	}
	k := x.byMapped[mappedFileOf(m)]
	if k == nil || !k.wasStill(at) {
		return nil, false
	}
	if m.Generation != 0 { // /proc does not report it
		k.generation = m.Generation
	}
	k.exe.refs++
	return k.exe, false
}

// findFile opens the file of a mapping, or recognizes it as a known file. It may block forever, and holds no lock while
// it reads. The executable is nil if the file cannot be reached. The error satisfies filework.Scarce.
func (x *executables) findFile(pid uint32, m *procfs.Mapping) (openedFile, error) {
	for _, c := range candidates(x.fs, pid, m) {
		e, fresh, err := x.openExecutable(pid, m, c)
		if e != nil || err != nil {
			return openedFile{e, fresh}, err
		}
		// The process continues to run, so the file may have been removed or replaced a moment ago.
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return openedFile{e: x.lastKnown(m)}, nil // nil if the process is gone
}

// lastKnown returns the executable of a mapping that cannot be opened, and takes a reference to it. It returns nil if
// the mapping may be of another file. The caller holds x.mu.
func (x *executables) lastKnown(m *procfs.Mapping) *Executable {
	k := x.byMapped[mappedFileOf(m)]
	if k == nil || !k.couldBe(m) {
		return nil
	}
	k.exe.refs++
	return k.exe
}

// withKey returns the executable of a file that m maps, and takes a reference to it, or nil if the file is new.
func (x *executables) withKey(m *procfs.Mapping, key fileKey) *Executable {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.byFile[key]
	if e != nil {
		x.learn(m, e)
		e.refs++
	}
	return e
}

// learn remembers that the kernel reports e's file as m does.
func (x *executables) learn(m *procfs.Mapping, e *Executable) {
	at := mappedFileOf(m)
	k := &knownFile{
		exe: e, path: m.Path, generation: m.Generation, checked: time.Now(),
		exact: e.key.dev == m.Dev && e.key.inode == m.Inode,
	}
	if old := x.byMapped[at]; old != nil && old.exe != e {
		if old.exe.key.dev == e.key.dev && old.exe.key.inode == e.key.inode {
			x.replaced(old.exe, e.key)
		} else {
			k.ambiguous = true
		}
	} else if old != nil {
		k.ambiguous = old.ambiguous
	}
	x.byMapped[at] = k
}

// replaced notes that a file has a new identity.
func (x *executables) replaced(e *Executable, now fileKey) {
	if now.writtenSince(e.key) {
		x.markStale(e)
	}
}

// markStale notes that a file was written to. The processes that have mapped it, or an equal file that shares its
// image, must be read again.
func (x *executables) markStale(e *Executable) {
	if e.stale {
		return
	}
	i := e.image.Load()
	lost := map[*Executable]bool{e: true}
	if i.first == e {
		lost = i.members
		x.sharing.forget(i)
	}
	for e := range lost {
		e.stale = true
		if x.byFile[e.key] == e {
			delete(x.byFile, e.key)
		}
		x.sharing.stale = append(x.sharing.stale, e)
	}
}

// takeStale returns the executables whose files were written to since the last call.
func (x *executables) takeStale() map[*Executable]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	stale := map[*Executable]bool{}
	for _, e := range x.sharing.stale {
		stale[e] = true
	}
	x.sharing.stale = nil
	return stale
}

// openExecutable finds the known file that c names, or reads a new file. If that fails, it returns an executable with
// the reason in Err. It returns nil if there is no such file, or if the file is not m's. The error satisfies
// filework.Scarce.
func (x *executables) openExecutable(pid uint32, m *procfs.Mapping, c candidate) (*Executable, bool, error) {
	f, st, err := c.openFile()
	if filework.Scarce(err) {
		return nil, false, err
	}
	known := (*Executable)(nil)
	if st != nil && c.holds(m, st) {
		known = x.withKey(m, keyOf(st))
	} else {
		st = nil
	}
	if st == nil || known != nil || procfs.Gone(err) {
		if f != nil {
			f.Close()
		}
		return known, false, nil
	}
	var file *elffile.File
	_, local := f.(*os.File)
	if err == nil {
		file, err = x.copies.Open(f)
	}
	if filework.Scarce(err) {
		return nil, false, err
	}
	if err != nil {
		err = fmt.Errorf("open ELF %s: %w", m.Path, errors.Unwrap(err)) // without the name that we opened
	}
	root, remote := x.fs.RootPath(pid, ""), !local
	e := &Executable{Path: m.Path, Root: root, Err: err, key: keyOf(st), remote: remote}
	i := newImage(e, file)
	if err == nil {
		e.BuildID = file.BuildID()
		i.describe(st, remote)
		e.library = x.detect(m.Path, file)
		from := x.origin(pid, m)
		i.rows = &fileRows{elf: file, index: x.indexing(from, m.Path), debug: x.debugFrameOf(e, from.Owner, file)}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if known := x.byFile[e.key]; known != nil { // another goroutine was faster
		if file != nil {
			file.Close()
		}
		e = known
	} else {
		x.byFile[e.key] = x.addExecutable(e, i)
	}
	x.learn(m, e)
	e.refs++
	return e, e.image.Load() == i, nil
}

// detect returns the language runtime in a file, or nil if there is none.
func (x *executables) detect(path string, file *elffile.File) language.Library {
	for _, language := range x.languages {
		if library := language.Detect(path, file); library != nil {
			return library
		}
	}
	return nil
}

// AddInterpreterFile implements [engine.Files].
func (x *executables) AddInterpreterFile(name string) unwind.ExeID {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := &Executable{Path: name, Err: errNoFile}
	x.addExecutable(e, newImage(e, nil)).refs++
	return e.ID
}

// RemoveInterpreterFile implements [engine.Files].
func (x *executables) RemoveInterpreterFile(exe unwind.ExeID) { x.release(x.byNumber(exe)) }

// addExecutable gives an executable its ID and its directory in the store.
func (x *executables) addExecutable(e *Executable, i *image) *Executable {
	if e.Err == nil {
		if err := i.loadDirectory(x.store); err != nil {
			e.Err = fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	i.members, i.users = map[*Executable]bool{e: true}, 1
	e.image.Store(i)
	x.number(e)
	if e.Err == nil {
		x.sharing.addImage(x, i)
	}
	return e
}

// number gives an executable its ID.
func (x *executables) number(e *Executable) {
	x.next++
	e.ID = x.next
	x.byID[e.ID] = e
}

// keepExecutable takes another reference.
func (x *executables) keepExecutable(e *Executable) {
	if e == nil {
		return
	}
	x.mu.Lock()
	e.refs++
	x.mu.Unlock()
}

// release drops a reference.
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

// byNumber returns an executable by its ID, or nil after it has been swept.
func (x *executables) byNumber(id unwind.ExeID) *Executable {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// tableRest is how long an executable keeps the data for building pages after it has built the last one.
const tableRest = 10 * time.Second

// sweep drops the executables that no process has mapped since a time, and the data that only they used. It also finds
// the files that were written to. It returns the IDs of the executables whose names are outdated.
func (x *executables) sweep(before time.Time) []unwind.ExeID {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	gone := x.sharing.renamed
	x.sharing.renamed = nil
	for id, e := range x.byID {
		i := e.image.Load()
		if e.refs == 0 && e.unusedSince.Before(before) {
			delete(x.byID, id)
			delete(x.code, id)
			if x.byFile[e.key] == e {
				delete(x.byFile, e.key)
			}
			if i.first != e {
				gone = append(gone, id)
			}
			delete(i.members, e)
			x.sharing.letGo(e)
			x.sharing.release(i, now)
			continue
		}
		i.trimUnused(now.Add(-tableRest))
		if !e.stale && e.written() {
			x.markStale(e)
		}
	}
	for at, k := range x.byMapped {
		if x.byID[k.exe.ID] == nil {
			delete(x.byMapped, at)
		}
	}
	return append(gone, x.sharing.sweep(x.store, now.Add(-imageGrace))...)
}

func (x *executables) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sharing.closed = true
	for _, e := range x.byID {
		x.sharing.letGo(e)
		e.image.Load().close()
	}
	for _, i := range x.sharing.unused {
		i.close()
	}
}
