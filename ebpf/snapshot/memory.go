package snapshot

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/runtime"
)

const (
	pageBytes = 4096
	// pagesAtOnce is how many pages of a stack are read at once.
	pagesAtOnce = 4
	// maxPages bounds what is read for one stack: some MiB.
	maxPages = 2048
)

// Memory is the memory of a process while one stack is read: each page is read once, so that what is read twice is the
// same. It implements sampler.ThreadMemory.
type Memory struct {
	process runtime.Memory
	thread  *kernel.Thread
	copied  *kernel.StackCopy // nil: none
	late    bool              // something was read that the copy has not
	// selfPointer says that what a thread pointer points to begins with its own address.
	selfPointer bool
	pages       map[uint64][]byte // by address; nil: it cannot be read
}

// MemoryOf returns the memory of a process as it is while one stack of it is read, and as it was where there is a copy,
// which may be nil. It is for one use of sampler.Threads.CompleteThread.
func MemoryOf(process runtime.Memory, t *kernel.Thread, copied *kernel.StackCopy) *Memory {
	m := newMemory(process, t)
	m.copied = copied
	return m
}

// OfCopy reports whether all that was read was in the copy, or is the same as long as the thread lives.
func (m *Memory) OfCopy() bool { return m.copied != nil && !m.late }

func newMemory(process runtime.Memory, t *kernel.Thread) *Memory {
	return &Memory{process: process, thread: t, selfPointer: hasSelfPointer, pages: map[uint64][]byte{}}
}

// ReadU64 implements unwind.Stack.
func (m *Memory) ReadU64(addr uint64) (uint64, bool) {
	if page := m.page(addr &^ (pageBytes - 1)); addr%pageBytes <= pageBytes-8 {
		if page == nil {
			return 0, false
		}
		return binary.LittleEndian.Uint64(page[addr%pageBytes:]), true
	}
	var b [8]byte
	ok := m.Read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), ok
}

// Read implements chain.Memory.
func (m *Memory) Read(addr uint64, b []byte) bool {
	for len(b) > 0 {
		page := m.page(addr &^ (pageBytes - 1))
		if page == nil {
			return false
		}
		n := copy(b, page[addr%pageBytes:])
		addr, b = addr+uint64(n), b[n:]
	}
	return true
}

// page returns the page at an address, nil if it cannot be read.
func (m *Memory) page(addr uint64) []byte {
	if m.copied != nil {
		if page := m.copied.Page(addr); page != nil {
			return page
		}
		m.late = true
	}
	page, ok := m.pages[addr]
	if ok {
		return page
	}
	if len(m.pages) >= maxPages {
		return nil
	}
	several := make([]byte, pagesAtOnce*pageBytes)
	n, _ := m.process.ReadAt(several, int64(addr)) // what can be read is what counts
	if n < pageBytes {
		m.pages[addr] = nil
		return nil
	}
	m.thread.RestoreReturns(several[:n], addr)
	for at := 0; at+pageBytes <= n; at += pageBytes {
		if _, ok := m.pages[addr+uint64(at)]; !ok {
			m.pages[addr+uint64(at)] = several[at:][:pageBytes:pageBytes]
		}
	}
	return m.pages[addr]
}

// Where the outermost frame of a stack can be, as bpf/task.h has it.
const (
	reach            = 33 * 64 << 10 // of a stack below its end
	startCodeFrame   = 256
	threadDescriptor = 4096
)

// EndsAt implements unwind.Stack. The stack of a program's first thread ends where the kernel began it, that of
// another below what the C library keeps of the thread.
func (m *Memory) EndsAt(addr uint64) bool {
	end := m.thread.StartStack + 16 // start code may have taken the number of arguments off the stack
	if end-addr < reach {
		return addr >= end-startCodeFrame
	}
	end = m.thread.ThreadPointer
	late := m.late
	defer func() { m.late = late }() // what is there stays there
	if self, ok := m.ReadU64(end); m.selfPointer && (!ok || self != end) {
		return false
	}
	return end-addr < reach && addr >= end-threadDescriptor
}
