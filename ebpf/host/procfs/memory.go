package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs/helper"
)

// Memory reads the memory of a process of this host, by address. It needs the right to trace the process, and reads the
// memory of the program that the process runs at the time.
type Memory struct {
	PID  uint32
	kept io.ReaderAt // memory of an ended process; nil to read a running process
}

// Memory returns the memory of a process. All values for one process are equal.
func (f FS) Memory(pid uint32) Memory { return Memory{pid, f.kept} }

// thread returns the thread through which the memory is read.
func (m Memory) thread() uint32 { return Default.thread(m.PID) }

// OfEnded reports whether the memory is the kept memory of an ended process.
func (m Memory) OfEnded() bool { return m.kept != nil }

// ReadAt implements io.ReaderAt.
func (m Memory) ReadAt(b []byte, addr int64) (int, error) {
	if m.kept != nil {
		return m.kept.ReadAt(b, addr)
	}
	if len(b) == 0 {
		return 0, nil
	}
	for done := 0; done < len(b); {
		piece := b[done:min(len(b), done+maxMemory)]
		n, err := m.readVector([]uint64{uint64(addr) + uint64(done)}, len(piece), piece)
		done += n
		switch {
		case err != nil && done == 0:
			return 0, fmt.Errorf("read %d bytes of process %d at 0x%x: %w", len(b), m.PID, addr, err)
		case n < len(piece):
			return done, io.ErrUnexpectedEOF
		}
	}
	return len(b), nil
}

// maxPieces is how many pieces one system call reads (UIO_MAXIOV).
const maxPieces = 1024

// ReadEach reads size bytes at each of the addresses, one after another, to b, which has room for them. It stops at the
// first address that cannot be read, and returns how many could be read. The error is always nil.
func (m Memory) ReadEach(addrs []uint64, size int, b []byte) (done int, err error) {
	if m.kept != nil {
		for i, addr := range addrs {
			if n, _ := m.kept.ReadAt(b[i*size:][:size], int64(addr)); n < size {
				return i, nil
			}
		}
		return len(addrs), nil
	}
	for piece := range slices.Chunk(addrs, max(1, min(maxPieces, maxMemory/max(size, 1)))) {
		n, err := m.readVector(piece, size, b[done*size:][:len(piece)*size])
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

// readVector reads at most one answer of the helper. If this host has FUSE file systems, pages may be of a file whose
// server has taken the request and does not answer: the helper reads pages that the process does not have in memory.
// All other waits end when this process ends. If the process loses a page between the check and the read, which takes a
// microsecond, read does not notice.
func (m Memory) readVector(addrs []uint64, size int, b []byte) (n int, err error) {
	if fuseMounted() && !m.resident(addrs, size) {
		n, err = m.askFor(addrs, size, b)
		if !errors.Is(err, helper.ErrNone) {
			return n, err
		}
	}
	remote := make([]unix.RemoteIovec, len(addrs))
	for i, addr := range addrs {
		remote[i] = unix.RemoteIovec{Base: uintptr(addr), Len: size}
	}
	return readMemory(m.thread(), b, remote)
}

// StartHelper starts the process that reads memory and files which may hang, if this host has a FUSE file system. On a
// busy machine the start of a process takes longer than a reader of memory waits.
func StartHelper() {
	if !fuseMounted() {
		return
	}
	if c, err := helper.Take(); err == nil {
		c.Put()
	}
}

// resident reports whether the process has all pages of size bytes at each of the addresses in memory, so that reading
// them requires no file system (Linux, Documentation/admin-guide/mm/pagemap.rst).
func (m Memory) resident(addrs []uint64, size int) bool {
	pages, err := unix.Open(fmt.Sprintf("/proc/%d/pagemap", m.thread()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pages)
	const entry, present = 8, 1 << 63
	pageSize := uint64(os.Getpagesize())
	var room [32 * entry]byte
	for _, addr := range addrs {
		last := (addr + uint64(size) - 1) / pageSize
		if last < addr/pageSize { // it is beyond the last address
			return false
		}
		for page := addr / pageSize; page <= last; page += uint64(len(room) / entry) {
			entries := room[:entry*min(last-page+1, uint64(len(room)/entry))]
			if n, err := unix.Pread(pages, entries, int64(page)*entry); err != nil || n < len(entries) {
				return false
			}
			for ; len(entries) > 0; entries = entries[entry:] {
				if binary.NativeEndian.Uint64(entries)&present == 0 {
					return false
				}
			}
		}
	}
	return true
}

// askFor asks the helper to read.
func (m Memory) askFor(addrs []uint64, size int, b []byte) (n int, err error) {
	c, err := helper.Take()
	if err != nil {
		return 0, err
	}
	defer c.Put()
	order := binary.NativeEndian
	request := order.AppendUint32(order.AppendUint32([]byte{opMemory}, m.thread()), uint32(size))
	for _, addr := range addrs {
		request = order.AppendUint64(request, addr)
	}
	reply := make([]byte, answerSize+len(b))
	if n, _, err = c.Call(request, reply); err != nil {
		return 0, err
	}
	if err := errorOf(reply[:n]); err != nil {
		return 0, err
	}
	return copy(b, reply[answerSize:n]), nil
}

// maxMemory is how many bytes the helper reads at once.
const maxMemory = helper.MaxReply - answerSize

func readMemory(pid uint32, b []byte, remote []unix.RemoteIovec) (int, error) {
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	for {
		n, err := unix.ProcessVMReadv(int(pid), local, remote, 0)
		if err != unix.EINTR {
			return max(n, 0), err // it is -1 with an error
		}
	}
}
