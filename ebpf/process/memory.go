package process

import (
	"fmt"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
)

// memory is the memory of a process as procfs.Memory reads it, but its reads do not wait for long: a page may be of a
// file whose server does not answer, or held back by userfaultfd(2). It implements language.Memory.
type memory struct {
	procfs.Memory
	fs    procfs.FS
	work  *filework.Pool
	mount string // see filework.Origin
	what  string
}

// Memory returns the memory of a process. Its reads do not wait for long, see language.ErrBusy.
func (t *Tracker) Memory(pid uint32) language.Memory { return t.memory(pid) }

func (t *Tracker) memory(pid uint32) memory {
	return memory{
		t.fs.Memory(pid), t.fs, t.exes.work, filework.MountOfMemory(pid),
		fmt.Sprintf("reading the memory of process %d", pid),
	}
}

// ReadAt implements io.ReaderAt.
func (m memory) ReadAt(b []byte, addr int64) (int, error) {
	var late struct { // a late read must not write to b
		b   []byte
		n   int
		err error
	}
	late.b = make([]byte, len(b))
	if err := m.doWithin(func() { late.n, late.err = m.Memory.ReadAt(late.b, addr) }); err != nil {
		return 0, err
	}
	return copy(b, late.b[:late.n]), late.err
}

// ReadEach implements language.Memory.
func (m memory) ReadEach(addrs []uint64, size int, b []byte) (int, error) {
	var late struct {
		b    []byte
		done int
		err  error
	}
	late.b = make([]byte, len(addrs)*size)
	if err := m.doWithin(func() { late.done, late.err = m.Memory.ReadEach(addrs, size, late.b) }); err != nil {
		return 0, err
	}
	copy(b, late.b[:late.done*size])
	return late.done, late.err
}

// doWithin runs work that reads the memory. If it returns language.ErrBusy, the work may still be running.
func (m memory) doWithin(work func()) error {
	err := m.work.Quick(filework.QuickWork{What: m.what, Mount: m.mount, Owner: m.owner, Run: work})
	if err != nil {
		return fmt.Errorf("%w: %w", language.ErrBusy, err)
	}
	return nil
}

func (m memory) owner() uint32 {
	if _, user, err := m.fs.Identity(m.PID); err == nil { // also works if the process is not dumpable
		return user
	}
	return m.fs.Owner(m.PID)
}
