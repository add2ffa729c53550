package cpython

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// threadLocal is the location of a thread-local variable (ELF Handling For Thread-Local Storage).
type threadLocal struct {
	offset int64
	// word is the vaddr of the words in a library's global offset table for the variable: its offset from the thread
	// pointer; or, if dynamic is set, the module number and the offset in the module's block, to which offset is added.
	// It is 0 for a program's variable, which is at offset from the thread pointer.
	word    uint64
	dynamic bool
}

// symbolState is a function that returns the thread state of the calling thread, with or without the GIL.
const symbolState = "PyGILState_GetThisThreadState"

// Code of symbolState where the variable is thread-local, on x86-64.
var (
	codeProgram = []byte{0x64, 0x48, 0x8b, 0x04, 0x25} // mov %fs:imm32, %rax
	codeLibrary = []byte{0x48, 0x8b, 0x05}             // mov disp32(%rip), %rax
	codeLoad    = []byte{0x64, 0x48, 0x8b, 0x00}       // mov %fs:(%rax), %rax
	codeDynamic = []byte{0x48, 0x8d, 0x3d}             // lea disp32(%rip), %rdi, before call __tls_get_addr
	codeResult  = []byte{0x48, 0x8b, 0x80}             // mov disp32(%rax), %rax
)

// findThreadLocal decodes symbolState to find the variable that it returns.
func findThreadLocal(file *elffile.File) (threadLocal, error) {
	unknown := fmt.Errorf("the code of %s is not known", symbolState)
	s, ok, err := file.DynamicSymbol(symbolState)
	if err != nil || !ok || file.Machine() != elf.EM_X86_64 {
		return threadLocal{}, unknown
	}
	code := make([]byte, min(s.Size, 64))
	if err := file.ReadVaddr(code, s.Value); err != nil {
		return threadLocal{}, fmt.Errorf("read %s: %w", symbolState, err)
	}
	if n, _, ok := operand(code, codeProgram); ok {
		return threadLocal{offset: n}, nil
	}
	if n, end, ok := operand(code, codeLibrary); ok && bytes.HasPrefix(code[end:], codeLoad) {
		return threadLocal{word: s.Value + uint64(end) + uint64(n)}, nil
	}
	n, end, ok := operand(code, codeDynamic)
	if !ok {
		return threadLocal{}, unknown
	}
	offset, _, ok := operand(code[end:], codeResult)
	if !ok {
		return threadLocal{}, unknown
	}
	return threadLocal{word: s.Value + uint64(end) + uint64(n), dynamic: true, offset: offset}, nil
}

// operand returns the 32-bit number that follows an opcode in code, and the offset of its end.
func operand(code, opcode []byte) (n int64, end int, ok bool) {
	at := bytes.Index(code, opcode)
	if end = at + len(opcode) + 4; at < 0 || end > len(code) {
		return 0, 0, false
	}
	return int64(int32(binary.LittleEndian.Uint32(code[end-4:]))), end, true
}

// inProcess reports whether the location of the variable differs between processes.
func (t threadLocal) inProcess() bool { return t.word != 0 }

// steps returns the steps to the value of the variable in a process.
func (t threadLocal) steps(p language.Process) ([]language.Step, error) {
	const tableOfModules, moduleSize, maxModules = 8, 16, 1 << 12 // of glibc's tcbhead_t.dtv
	if !t.inProcess() {
		return []language.Step{{Op: language.ThreadPointer, Offset: t.offset}, {Op: language.Load}}, nil
	}
	m := memory{p.Memory}
	first, err := m.u64(p.Bias + t.word)
	if err != nil {
		return nil, err
	}
	if !t.dynamic {
		if offset := int64(first); offset < 0 && offset > -maxOffset {
			return []language.Step{{Op: language.ThreadPointer, Offset: offset}, {Op: language.Load}}, nil
		}
		return nil, language.ErrNotReady // not relocated yet
	}
	second, err := m.u64(p.Bias + t.word + 8)
	if err != nil {
		return nil, err
	}
	if first == 0 || first > maxModules || second > maxOffset {
		return nil, language.ErrNotReady
	}
	return []language.Step{
		{Op: language.ThreadPointer, Offset: tableOfModules},
		{Op: language.Load},
		{Op: language.Load, Offset: moduleSize * int64(first)},
		{Op: language.Load, Offset: int64(second) + t.offset},
	}, nil
}
