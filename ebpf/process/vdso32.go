package process

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// maxVDSOs32 bounds the vdsos of 32-bit tasks that are kept. The kernel has one; processes that write to theirs have
// more.
const maxVDSOs32 = 16

// isVDSO32 reports whether a mapping is the vdso of a 32-bit task. The vdso of a 64-bit task is never so low.
func isVDSO32(m *procfs.Mapping) bool { return m.Path == procfs.VDSO && m.End <= 1<<32 }

// vdso32 returns the vdso of a 32-bit process and takes a reference to it, or nil if it cannot be read. This process
// has a 64-bit vdso, so vdso32 reads the memory of the 32-bit process. That process may have written to its vdso, so
// only vdsos with equal bytes share an executable.
func (x *executables) vdso32(pid uint32, m *procfs.Mapping) (e *Executable, fresh bool) {
	content := make([]byte, min(m.End-m.Start, maxVDSO))
	if _, err := x.fs.Memory(pid).ReadAt(content, int64(m.Start)); err != nil {
		return nil, false // the process is gone
	}
	key := sha256.Sum256(content)
	x.mu.Lock()
	defer x.mu.Unlock()
	if e = x.vdsos32[key]; e == nil {
		if len(x.vdsos32) >= maxVDSOs32 {
			return nil, false
		}
		e, fresh = x.addExecutable(newVDSO32(content)), true
		e.refs++ // never freed
		x.vdsos32[key] = e
	}
	e.refs++
	return e, fresh
}

func newVDSO32(content []byte) (*Executable, *image) {
	e := &Executable{Path: procfs.VDSO}
	file, err := elffile.New(bytes.NewReader(content))
	if err != nil {
		e.Err = fmt.Errorf("32-bit vdso: %w", err)
		return e, newImage(e, nil)
	}
	e.BuildID = file.BuildID()
	i := newImage(e, file)
	i.mapped = uint64(len(content))
	return e, i
}
