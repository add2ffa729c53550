package snapshot

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
)

const (
	pageBytes = 4096
	// pagesAtOnce is how many pages of a stack are read at once.
	pagesAtOnce = 4
	// maxPages bounds the pages that are read for one stack: some MiB.
	maxPages = 2048
)

// Memory is the memory of a process while one stack is read. Each page is read once, so that repeated reads return the
// same bytes. It implements sampler.ThreadMemory.
type Memory struct {
	process language.Memory
	thread  *kernel.Thread
	copied  *kernel.StackCopy // nil if there is none
	late    bool              // a page was read that the copy lacks
	// selfPointer says that the memory at a thread pointer starts with its own address.
	selfPointer bool
	pages       map[uint64][]byte // by address; nil if it cannot be read
}

// MemoryOf returns the memory of a process while one of its stacks is read: from the copy, which may be nil, or else
// from the process. It is for one call of sampler.Threads.CompleteThread.
func MemoryOf(process language.Memory, t *kernel.Thread, copied *kernel.StackCopy) *Memory {
	m := newMemory(process, t)
	m.copied = copied
	return m
}

// OfCopy reports whether all memory that was read was in the copy, or does not change while the thread lives.
func (m *Memory) OfCopy() bool { return m.copied != nil && !m.late }

func newMemory(process language.Memory, t *kernel.Thread) *Memory {
	return &Memory{process: process, thread: t, selfPointer: hasSelfPointer, pages: map[uint64][]byte{}}
}

// ReadU64 implements unwind.Stack.
func (m *Memory) ReadU64(addr uint64) (uint64, bool) {
	if page := m.readPage(addr &^ (pageBytes - 1)); addr%pageBytes <= pageBytes-8 {
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
		page := m.readPage(addr &^ (pageBytes - 1))
		if page == nil {
			return false
		}
		n := copy(b, page[addr%pageBytes:])
		addr, b = addr+uint64(n), b[n:]
	}
	return true
}

// readPage returns the page at an address, nil if it cannot be read.
func (m *Memory) readPage(addr uint64) []byte {
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
	n, _ := m.process.ReadAt(several, int64(addr)) // fewer pages are enough
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

// Where the outermost frame of a stack can be, as in bpf/kernel/task.h.
const (
	reach            = 33 * 64 << 10 // of a stack below its end
	startCodeFrame   = 256
	threadDescriptor = 4096
)

// EndsAt implements unwind.Stack. The stack of a program's first thread ends where the kernel started it. The stack of
// another thread ends below the C library's data about the thread.
func (m *Memory) EndsAt(addr uint64) bool {
	end := m.thread.StartStack + 16 // start code may have taken the number of arguments off the stack
	if end-addr < reach {
		return addr >= end-startCodeFrame
	}
	end = m.thread.ThreadPointer
	late := m.late
	defer func() { m.late = late }() // this word does not change
	if self, ok := m.ReadU64(end); m.selfPointer && (!ok || self != end) {
		return false
	}
	return end-addr < reach && addr >= end-threadDescriptor
}
