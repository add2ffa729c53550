package unwindtable

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/codeflow"
)

// code reads the machine code of an executable, for information that is not in call frame
// information. It must not be used concurrently.
type code struct {
	segments    []segment
	size        uint64   // bytes of all segments
	library     bool     // it is the C library
	trampolines [][]byte // code of signal trampolines
	clones      []cloneCall
	starts      [][]byte // code at the ends of coroutines' stacks
}

type segment struct {
	addr   uint64
	window window
}

func newCode(s Sections) *code {
	c := &code{trampolines: trampolines(s.Machine), clones: cloneCalls(s.Machine), starts: coroutineStarts(s.Machine),
		library: s.CLibrary}
	for _, text := range s.Text {
		if text.Addr+text.Size < text.Addr {
			continue // beyond the address space
		}
		c.segments = append(c.segments, segment{text.Addr, window{
			r: text.Data, size: text.Size, chunk: codeChunk, back: codeChunk / 8,
		}})
		c.size += text.Size
	}
	return c
}

// bytesAt returns the n bytes of code at addr, or nil if they are unreadable. They are valid until the
// next call.
func (c *code) bytesAt(addr uint64, n int) []byte {
	for i := range c.segments {
		s := &c.segments[i]
		if addr < s.addr || addr-s.addr >= s.window.size {
			continue
		}
		if b, err := s.window.Slice(addr-s.addr, n); err == nil && len(b) == n {
			return b
		}
	}
	return nil
}

var errNoCode = errors.New("there is no code")

// ReadVaddr implements codeflow.Image.
func (c *code) ReadVaddr(p []byte, vaddr uint64) error {
	text := c.bytesAt(vaddr, len(p))
	if text == nil {
		return fmt.Errorf("%#x: %w", vaddr, errNoCode)
	}
	copy(p, text)
	return nil
}

// trampolines returns the code that a signal handler returns to: the system call rt_sigreturn, in a
// form that other code does not contain. Some C libraries, Go's runtime and the vdso of arm64 have
// no call frame information for it. Debuggers also recognize its bytes, and the kernel promises to
// keep the bytes of the vdso (Linux, arch/arm64/kernel/vdso/sigreturn.S).
func trampolines(m elf.Machine) [][]byte {
	switch m {
	case elf.EM_X86_64:
		return [][]byte{
			{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}, // mov $15,%rax; syscall
			{0xb8, 15, 0, 0, 0, 0x0f, 0x05},             // mov $15,%eax; syscall
		}
	case elf.EM_AARCH64:
		return [][]byte{{0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}} // mov x8,#139; svc #0
	}
	return nil
}

// maxPadding is the maximum size of a gap between functions that counts as padding.
const maxPadding = 64

// wanted reports whether the page with these rows of .eh_frame may have interesting code in its
// gaps. Small executables and the C library are always read.
func (c *code) wanted(rows []unwind.Row) bool {
	if len(c.segments) == 0 {
		return false
	}
	if c.size <= unwind.MaxPageSize || c.library {
		return true
	}
	for i, r := range rows {
		if r.CFA == unwind.CFANone && (i+1 == len(rows) || rows[i+1].Off-r.Off > maxPadding) {
			return true
		}
	}
	return false
}

// isTrap reports whether x86 code starts with a trap: int3, or int $3 in two bytes.
func isTrap(text []byte) bool {
	return bytes.HasPrefix(text, []byte{0xcc}) || bytes.HasPrefix(text, []byte{0xcd, 3})
}

// Maximum bytes of known code, and of the code where a new thread starts.
const (
	overlap     = 64
	threadStart = 32
)

// texts yields the code of the page with the bytes around it, by segment, and the code's offset from the start of the
// page. It leaves out code that cannot be read: the rows are valid without it. The code is valid until the next step.
func (b *builder) texts() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i := range b.code.segments {
			s := &b.code.segments[i]
			lo := max(b.lo-min(b.lo, overlap), s.addr)
			hi := min(b.hi+min(overlap, math.MaxUint64-b.hi), s.addr+s.window.size)
			if lo >= hi {
				continue
			}
			text, err := s.window.Slice(lo-s.addr, int(hi-lo))
			if err == nil && !yield(int(int64(lo-b.lo)), text) {
				return
			}
		}
	}
}

// markKnownCode adds rows for signal trampolines, for system calls that create threads and
// processes, and for coroutine starts in the page.
//
// A signal handler returns to its trampoline without a call there, so its return address is looked
// up one byte early. The row therefore starts in the instruction before the trampoline, which never
// runs. It also covers one byte after the trampoline, where the pc is during the system call,
// unless that byte belongs to a function and is not a trap, as in Go's runtime. The row replaces
// existing rows of the trampoline, which are wrong because they do not describe a signal frame.
func (b *builder) markKnownCode(rows []unwind.Row) []unwind.Row {
	signal := unwind.Row{CFA: unwind.CFASignal, CFAOff: b.table.machine.signalSP}
	clone := unwind.Row{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAClone)}
	outermost := unwind.Row{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}
	var children []uint64 // addresses where children continue
	for first, text := range b.texts() {
		for _, pattern := range b.code.trampolines {
			for at := range occurrences(text, pattern) {
				end := first + at + len(pattern)
				trap := b.table.sections.Machine == elf.EM_X86_64 && isTrap(text[at+len(pattern):])
				if end >= 0 && end < b.size && (trap || rows[findRow(rows, end)].CFA == unwind.CFANone) {
					end++
				}
				rows = b.markRows(rows, first+at-1, end, signal)
			}
		}
		for _, call := range b.code.clones {
			for at := range call.occurrences(text) {
				at += first
				// Call frame information takes precedence.
				if at >= 0 && at < b.size && rows[findRow(rows, at)].CFA == unwind.CFANone {
					rows = b.markRows(rows, at, at+call.size, clone)
				}
				children = append(children, b.lo+uint64(at+call.size))
			}
		}
		for _, pattern := range b.code.starts {
			for at := range occurrences(text, pattern) {
				rows = b.markRows(rows, first+at-1, first+at, outermost)
			}
		}
	}
	for _, child := range children {
		if bounds, ok := b.codeAround(child, threadStart); ok {
			bounds[0] = child
			rows = b.markOutermost(rows, codeflow.Entry(b.code, b.table.sections.Machine, child, bounds))
		}
	}
	return rows
}

// markNewThreads adds rows for functions with call frame information that contain the system call
// clone, and code of the child after it: clone of the runtimes of sanitizers, of gperftools and of
// Chromium. The child has another stack, so it has no caller. The call frame information is only
// right for the parent. There is one row up to the branch of the child, and rows from there on.
func (b *builder) markNewThreads(rows []unwind.Row) []unwind.Row {
	if b.table.sections.Machine != elf.EM_X86_64 {
		return rows
	}
	type found struct {
		call, child int    // offsets from the start of the page
		size        uint64 // bytes up to the code of the parent
	}
	var all []found
	for first, text := range b.texts() {
		for at := range occurrences(text, inlineClone) {
			child := at + len(inlineClone) + 1
			if child < len(text) && startsThread(text[child:]) {
				all = append(all, found{first + at, first + child, uint64(text[child-1])})
			}
		}
	}
	outermost := unwind.Row{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}
	for _, f := range all {
		child := b.lo + uint64(f.child)
		code := codeflow.Entry(b.code, elf.EM_X86_64, child, [2]uint64{child, child + f.size + overlap})
		if len(code) != 1 || code[0][0] != child || code[0][1] > child+f.size ||
			!bytes.Equal(b.code.bytesAt(code[0][1]-2, 2), inlineClone[:2]) {
			continue // it does not end with the system call exit
		}
		if at := max(f.call, 0); at < b.size {
			row := rows[findRow(rows, at)]
			if row.CFA == unwind.CFASP && row.RA() == unwind.RADefault {
				row.Rules = unwind.Rules(row.FP(), unwind.RAClone)
				rows = b.markRows(rows, f.call, f.child, row)
			}
		}
		rows = b.markRows(rows, f.child, f.child+int(code[0][1]-child), outermost)
	}
	return rows
}

// inlineClone is: syscall; test %rax,%rax; jne. The distance of the jump follows.
var inlineClone = []byte{0x0f, 0x05, 0x48, 0x85, 0xc0, 0x75}

// startsThread reports whether code is: xor %rbp,%rbp; pop %rax; pop %rdi; call *%rax. It ends the
// chain of frame pointers, and calls the function that the parent has put on the new stack.
func startsThread(code []byte) bool {
	return bytes.HasPrefix(bytes.TrimPrefix(code, []byte{0x48}), []byte{0x31, 0xed, 0x58, 0x5f, 0xff, 0xd0})
}

// coroutineStarts returns the code that the first function of a coroutine returns to: glibc's
// __start_context (sysdeps/unix/sysv/linux/x86_64/__start_context.S). makecontext sets it as the
// return address, so it is looked up one byte early, where there is no call frame information. The
// call frame information of __start_context itself would use the next context as a return address.
func coroutineStarts(m elf.Machine) [][]byte {
	if m != elf.EM_X86_64 {
		return nil
	}
	// mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi
	return [][]byte{{0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff}}
}

// cloneCall is the code of a C library that makes the system call clone or clone3 and returns.
type cloneCall struct {
	code, next []byte // next follows code after one byte, the distance of the jump at the end of code
	size       int    // bytes until the parent has returned, or jumps to its return; the child continues there
}

// cloneCalls returns code that has no call frame information from the system call on, because it
// could not be correct for both parent and child. Samples often hit this code, because the kernel
// takes long to copy a process.
func cloneCalls(m elf.Machine) []cloneCall {
	if m != elf.EM_X86_64 {
		return nil
	}
	return []cloneCall{
		// syscall; test %rax,%rax; jl error; je child; ret: glibc
		{[]byte{0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c}, []byte{0x74, 0x01, 0xc3}, 10},
		// syscall; test %eax,%eax; jne parent; xor %ebp,%ebp: musl
		{[]byte{0x0f, 0x05, 0x85, 0xc0, 0x75}, []byte{0x31, 0xed}, 6},
	}
}

// occurrences yields the offsets of c in text.
func (c *cloneCall) occurrences(text []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := range occurrences(text, c.code) {
			next := at + len(c.code) + 1
			if next < len(text) && bytes.HasPrefix(text[next:], c.next) && !yield(at) {
				return
			}
		}
	}
}

// markRows returns rows with row for the part of [start, end) inside the page.
func (b *builder) markRows(rows []unwind.Row, start, end int, row unwind.Row) []unwind.Row {
	start, end = max(start, 0), min(end, b.size)
	if start >= end {
		return rows
	}
	return putRow(rows, start, end, b.size, row)
}

// occurrences yields the offsets of pattern in text.
func occurrences(text, pattern []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; ; at += len(pattern) {
			found := bytes.Index(text[at:], pattern)
			if found < 0 {
				return
			}
			if at += found; !yield(at) {
				return
			}
		}
	}
}
