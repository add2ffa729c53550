package heap

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// files are the executables that were searched for an allocator, and the places where its calls are seen.
type files struct {
	// each says that probes are put into each wanted process that maps a file, and into no other process.
	each     bool
	seen     map[unwind.ExeID][]kernel.HeapFunction // of the allocator; none: it has none, or calls cannot be seen
	attached map[place]*attached
	failed   map[unwind.ExeID]error // why no calls of a file are seen
	byFile   map[identity]bool      // files with probes for all processes
}

// place is where probes are: in a file of one process, or, with the PID 0, of all processes that map it.
type place struct {
	exe unwind.ExeID
	pid uint32
}

// attached are the probes at a place.
type attached struct {
	probes *kernel.HeapProbes
	file   identity
}

// identity identifies the file in which the kernel puts probes.
type identity struct {
	device, inode uint64
	size, written int64 // of files on overlayfs, which have no device here
}

func newFiles(each bool) files {
	return files{
		each: each, seen: map[unwind.ExeID][]kernel.HeapFunction{}, attached: map[place]*attached{},
		failed: map[unwind.ExeID]error{}, byFile: map[identity]bool{},
	}
}

// place returns where the probes for a mapping are.
func (f *files) place(m process.FileMapping) place {
	if f.each {
		return place{m.Exe.ID, m.PID}
	}
	return place{exe: m.Exe.ID}
}

// unknown returns mappings of wanted processes: one of each file that was not searched yet, and one for each place
// where probes of an allocator are missing.
func (f *files) unknown(s Sampler, wants func(pid uint32) bool) (out []process.FileMapping) {
	var all []process.FileMapping
	s.Mapped(func(e *process.Executable) bool {
		functions, seen := f.seen[e.ID]
		return !seen || f.each && len(functions) > 0
	}, func(m process.FileMapping) { all = append(all, m) })
	wanted, found := map[uint32]bool{}, map[place]bool{}
	for _, m := range all {
		at := f.place(m)
		if _, is := f.attached[at]; is || found[at] {
			continue
		}
		is, asked := wanted[m.PID]
		if !asked {
			is = wants(m.PID)
			wanted[m.PID] = is
		}
		if is {
			found[at] = true
			out = append(out, m)
		}
	}
	return out
}

// attach probes the allocator in a file, if it has one.
func (f *files) attach(k *kernel.Heap, m process.FileMapping) error {
	functions, seen := f.seen[m.Exe.ID]
	var leftOut error
	if !seen {
		f.seen[m.Exe.ID] = nil
		var err error
		functions, leftOut, err = allocatorOf(m.Exe)
		if err != nil || len(functions) == 0 {
			if leftOut != nil {
				f.failed[m.Exe.ID] = leftOut
			}
			return errors.Join(err, leftOut)
		}
		f.seen[m.Exe.ID] = functions
	}
	path := procfs.Default.MapFilePath(m.PID, m.Start, m.End)
	err := f.attachAt(k, m, path, functions)
	if _, gone := os.Lstat(path); err != nil && errors.Is(gone, fs.ErrNotExist) {
		if !f.each {
			delete(f.seen, m.Exe.ID)
		}
		return nil // the process or its mapping has ended: another process may have the file
	}
	if err != nil {
		err = fmt.Errorf("calls of the allocator in %s are not sampled: %w", m.Exe.Path, err)
		f.failed[m.Exe.ID], f.seen[m.Exe.ID] = err, nil
		return err
	}
	return leftOut
}

func (f *files) attachAt(k *kernel.Heap, m process.FileMapping, path string, functions []kernel.HeapFunction) error {
	if m.Exe.MayHang() {
		return errors.New("its file system may hang; copy the file to a local file system")
	}
	id, err := identify(path)
	if err != nil || f.byFile[id] {
		return err
	}
	at := f.place(m)
	probes, err := k.Attach(path, functions, at.pid)
	if err != nil {
		return err
	}
	f.attached[at] = &attached{probes, id}
	if !f.each {
		f.byFile[id] = true
	}
	return nil
}

// allocatorOf returns the functions of the allocator that an executable has, and an error for the ones that are left
// out.
func allocatorOf(e *process.Executable) (found []kernel.HeapFunction, leftOut, err error) {
	file, err := e.Open()
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	found, leftOut, err = functions(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	if leftOut != nil {
		leftOut = fmt.Errorf("calls of some functions of the allocator in %s are not sampled: %w", e.Path, leftOut)
	}
	return found, leftOut, nil
}

// identify returns the identity of a file. Files of containers that share a layer are one file for the kernel, which
// keeps probes by the file below overlayfs, but they have a different device in each container.
func identify(path string) (identity, error) {
	var st unix.Stat_t
	var system unix.Statfs_t
	if err := cmp.Or(unix.Stat(path, &st), unix.Statfs(path, &system)); err != nil {
		return identity{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if system.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return identity{inode: st.Ino, size: st.Size, written: st.Mtim.Nano()}, nil
	}
	return identity{device: st.Dev, inode: st.Ino}, nil
}

// forget returns the probes to close: of files that no process has mapped for a while, and of processes that have ended
// or are not wanted. Then all files are searched again: a file that was taken for a dropped one may need probes.
func (f *files) forget(s Sampler, wants func(pid uint32) bool) (probes []*kernel.HeapProbes) {
	probes = f.takeProbes(func(at place) bool {
		return s.Executable(at.exe) == nil || at.pid != 0 && !(procfs.Default.Lives(at.pid) && wants(at.pid))
	})
	for id := range f.failed {
		if s.Executable(id) == nil {
			delete(f.failed, id)
		}
	}
	for id, functions := range f.seen {
		_, is := f.attached[place{exe: id}]
		if s.Executable(id) == nil || len(probes) > 0 && !f.each && !is && len(functions) > 0 {
			delete(f.seen, id)
		}
	}
	return probes
}

// takeProbes removes the probes at some places, and returns them to be closed.
func (f *files) takeProbes(are func(place) bool) (probes []*kernel.HeapProbes) {
	for at, a := range f.attached {
		if are(at) {
			probes = append(probes, a.probes)
			delete(f.attached, at)
			delete(f.byFile, a.file)
		}
	}
	return probes
}

// anyPlace accepts all places.
func anyPlace(place) bool { return true }

// failure returns why calls of a file are not seen, one reason of several; nil if the calls of all files are seen.
func (f *files) failure() (first error) {
	for _, err := range f.failed {
		if first == nil || err.Error() < first.Error() {
			first = err
		}
	}
	return first
}

// count returns the number of files whose calls are seen.
func (f *files) count() int {
	executables := map[unwind.ExeID]bool{}
	for at := range f.attached {
		executables[at.exe] = true
	}
	return len(executables)
}
