package procfs

import (
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// Memory reads the memory of a process of this host, by address. It needs the right to
// trace the process, and reads whatever program the process runs at the time.
type Memory struct {
	PID  uint32
	kept io.ReaderAt // of a process that has ended; nil: it is read of the process
}

// Memory returns the memory of a process. That of a process is always equal.
func (f FS) Memory(pid uint32) Memory { return Memory{pid, f.kept} }

// OfEnded reports whether it is the memory that was kept of a process.
func (m Memory) OfEnded() bool { return m.kept != nil }

// ReadAt implements io.ReaderAt.
func (m Memory) ReadAt(b []byte, addr int64) (int, error) {
	if m.kept != nil {
		return m.kept.ReadAt(b, addr)
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := m.readv(b, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}})
	switch {
	case err != nil:
		return 0, fmt.Errorf("read %d bytes of process %d at 0x%x: %w", len(b), m.PID, addr, err)
	case n < len(b):
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

// maxPieces is how many pieces one system call reads (UIO_MAXIOV).
const maxPieces = 1024

// ReadEach reads size bytes at each of the addresses, one behind another, to b, which
// has room for them. It returns how many of the addresses could be read: those behind
// the first that could not are not read. There is never an error.
func (m Memory) ReadEach(addrs []uint64, size int, b []byte) (done int, err error) {
	if m.kept != nil {
		for i, addr := range addrs {
			if n, _ := m.kept.ReadAt(b[i*size:][:size], int64(addr)); n < size {
				return i, nil
			}
		}
		return len(addrs), nil
	}
	for piece := range slices.Chunk(addrs, maxPieces) {
		remote := make([]unix.RemoteIovec, len(piece))
		for i, addr := range piece {
			remote[i] = unix.RemoteIovec{Base: uintptr(addr), Len: size}
		}
		n, err := m.readv(b[done*size:][:len(piece)*size], remote)
		if err != nil {
			return done, nil
		}
		done += n / size
		if n < len(piece)*size {
			return done, nil
		}
	}
	return done, nil
}

func (m Memory) readv(b []byte, remote []unix.RemoteIovec) (int, error) {
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	for {
		n, err := unix.ProcessVMReadv(int(m.PID), local, remote, 0)
		if err != unix.EINTR {
			return n, err
		}
	}
}
