package heap

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// files are those whose allocators are seen, and those that have none.
type files struct {
	seen     map[unwind.ExeID]bool // need not be looked at again
	attached map[unwind.ExeID]*attached
	failed   map[unwind.ExeID]error // why no calls of a file are seen
	byFile   map[identity]bool      // those that are attached
}

// attached is a file with probes.
type attached struct {
	probes *kernel.HeapProbes
	file   identity
}

// identity is that of the file in which the kernel puts probes.
type identity struct {
	device, inode uint64
	size, written int64 // of files whose device says nothing
}

func newFiles() files {
	return files{
		seen: map[unwind.ExeID]bool{}, attached: map[unwind.ExeID]*attached{}, failed: map[unwind.ExeID]error{},
		byFile: map[identity]bool{},
	}
}

// unknown returns a mapping of each file that a process has mapped which is wanted, and that nobody has looked at.
func (f *files) unknown(s Sampler, wants func(pid uint32) bool) (out []process.FileMapping) {
	var all []process.FileMapping
	s.Mapped(func(e *process.Executable) bool { return !f.seen[e.ID] },
		func(m process.FileMapping) { all = append(all, m) })
	wanted, found := map[uint32]bool{}, map[unwind.ExeID]bool{}
	for _, m := range all {
		if found[m.Exe.ID] {
			continue
		}
		is, asked := wanted[m.PID]
		if !asked {
			is = wants(m.PID)
			wanted[m.PID] = is
		}
		if is {
			found[m.Exe.ID] = true
			out = append(out, m)
		}
	}
	return out
}

// attach has the calls of the allocator in a file seen, if it has one.
func (f *files) attach(k *kernel.Heap, m process.FileMapping) error {
	f.seen[m.Exe.ID] = true
	found, leftOut, err := allocator(m.Exe)
	if err != nil || len(found) == 0 {
		if leftOut != nil {
			f.failed[m.Exe.ID] = leftOut
		}
		return errors.Join(err, leftOut)
	}
	path := procfs.Default.MapFilePath(m.PID, m.Start, m.End)
	err = f.attachAt(k, m.Exe, path, found)
	if _, gone := os.Stat(path); err != nil && errors.Is(gone, fs.ErrNotExist) {
		delete(f.seen, m.Exe.ID) // the process or its mapping has ended: another one may have the file
		return nil
	}
	if err != nil {
		err = fmt.Errorf("calls of the allocator in %s are not seen: %w", m.Exe.Path, err)
		f.failed[m.Exe.ID] = err
		return err
	}
	return leftOut
}

func (f *files) attachAt(k *kernel.Heap, e *process.Executable, path string, found []kernel.HeapFunction) error {
	if e.MayHang() {
		return errors.New("it is on a file system that may hang; a copy on a local one is seen")
	}
	id, err := identify(path)
	if err != nil || f.byFile[id] {
		return err
	}
	probes, err := k.Attach(path, found)
	if err != nil {
		return err
	}
	f.attached[e.ID], f.byFile[id] = &attached{probes, id}, true
	return nil
}

// allocator returns the functions of the allocator that an executable has, and which of them are left out.
func allocator(e *process.Executable) (found []kernel.HeapFunction, leftOut, err error) {
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
		leftOut = fmt.Errorf("calls of some functions of the allocator in %s are not seen: %w", e.Path, leftOut)
	}
	return found, leftOut, nil
}

// identify returns the identity of a file. Files of containers that share a layer are one for the kernel, which keeps
// probes by the file below overlayfs, but have a device for each container.
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

// forget takes the probes of files away that nobody has mapped for a while. Then all files are looked at again: one
// that was taken for the same may have to have probes.
func (f *files) forget(s Sampler) error {
	var errs []error
	for id, a := range f.attached {
		if s.Executable(id) == nil {
			errs = append(errs, a.probes.Close())
			delete(f.attached, id)
			delete(f.byFile, a.file)
			clear(f.seen)
		}
	}
	for id := range f.failed {
		if s.Executable(id) == nil {
			delete(f.failed, id)
		}
	}
	for id := range f.seen {
		if s.Executable(id) == nil {
			delete(f.seen, id)
		}
	}
	for id := range f.attached {
		f.seen[id] = true
	}
	return errors.Join(errs...)
}

// failure returns why calls of a file are not seen, one reason of several; nil if all are.
func (f *files) failure() (first error) {
	for _, err := range f.failed {
		if first == nil || err.Error() < first.Error() {
			first = err
		}
	}
	return first
}

// close takes all probes away.
func (f *files) close() error {
	var errs []error
	for _, a := range f.attached {
		errs = append(errs, a.probes.Close())
	}
	*f = newFiles()
	return errors.Join(errs...)
}
