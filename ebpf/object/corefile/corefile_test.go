package corefile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// builder writes a core file.
type builder struct {
	machine elf.Machine
	notes   []byte
	loads   []load
}

type load struct {
	vaddr uint64
	flags elf.ProgFlag
	data  []byte
	memsz uint64
}

func words(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func (b *builder) note(kind uint32, data []byte) {
	for _, v := range []uint32{5, uint32(len(data)), kind} {
		b.notes = order.AppendUint32(b.notes, v)
	}
	b.notes = append(b.notes, "CORE\x00\x00\x00\x00"...)
	b.notes = append(b.notes, data...)
	for len(b.notes)%4 != 0 {
		b.notes = append(b.notes, 0)
	}
}

// thread adds an NT_PRSTATUS whose registers are their own numbers.
func (b *builder) thread(tid uint32, signal uint16) {
	count := 27
	if b.machine == elf.EM_AARCH64 {
		count = 34
	}
	status := make([]byte, statusRegisters)
	order.PutUint16(status[statusSignal:], signal)
	order.PutUint32(status[statusPID:], tid)
	for i := range count {
		status = append(status, words(uint64(1000+i))...)
	}
	b.note(notePRSTATUS, append(status, make([]byte, 8)...))
}

// files adds an NT_FILE.
func (b *builder) files(files ...mappedFile) {
	data, paths := words(uint64(len(files)), 4096), []byte{}
	for _, f := range files {
		data = append(data, words(f.start, f.end, f.offset/4096)...)
		paths = append(append(paths, f.path...), 0)
	}
	b.note(noteFILE, append(data, paths...))
}

func (b *builder) bytes() []byte {
	header := make([]byte, headerSize)
	copy(header, elf.ELFMAG+"\x02\x01\x01")
	order.PutUint16(header[16:], uint16(elf.ET_CORE))
	order.PutUint16(header[18:], uint16(b.machine))
	order.PutUint64(header[32:], headerSize)
	order.PutUint16(header[54:], programSize)
	order.PutUint16(header[56:], uint16(1+len(b.loads)))
	at := uint64(headerSize + programSize*(1+len(b.loads)))
	program := func(kind elf.ProgType, flags elf.ProgFlag, vaddr uint64, data []byte, memsz uint64) {
		header = order.AppendUint32(order.AppendUint32(header, uint32(kind)), uint32(flags))
		header = append(header, words(at, vaddr, 0, uint64(len(data)), memsz, 1)...)
		at += uint64(len(data))
	}
	program(elf.PT_NOTE, 0, 0, b.notes, 0)
	for _, l := range b.loads {
		program(elf.PT_LOAD, l.flags, l.vaddr, l.data, max(l.memsz, uint64(len(l.data))))
	}
	out := append(header, b.notes...)
	for _, l := range b.loads {
		out = append(out, l.data...)
	}
	return out
}

// noFiles opens no files.
func noFiles(string) (*file, error) { return nil, fs.ErrNotExist }

func (b *builder) read(t *testing.T, open opener) *Core {
	t.Helper()
	c, err := readCore(bytes.NewReader(b.bytes()), Options{}, open)
	require.NoError(t, err)
	return c
}

// TestRegisters: each register comes from its place in struct user_regs_struct (x86-64) or user_pt_regs (arm64), and
// the thread pointer of arm64 from its own note.
func TestRegisters(t *testing.T) {
	b := builder{machine: elf.EM_X86_64}
	b.thread(41, 11)
	b.thread(42, 11)
	c := b.read(t, noFiles)
	require.Len(t, c.Threads, 2)
	first := c.Threads[0]
	// r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base
	require.Equal(t, [3]uint64{1016, 1019, 1004}, [3]uint64{first.Regs.PC, first.Regs.SP, first.Regs.FP})
	require.Equal(t, [16]uint64{1010, 1012, 1011, 1005, 1013, 1014, 1004, 1019, 1009, 1008, 1007, 1006, 1003, 1002, 1001,
		1000}, first.Regs.General)
	require.True(t, first.Regs.Full && first.Regs.Exact)
	require.Equal(t, uint64(1021), first.ThreadPointer)
	require.Equal(t, []bool{true, false}, []bool{c.Threads[0].Pending, c.Threads[1].Pending})
	require.Equal(t, 11, c.Signal.Number)

	b = builder{machine: elf.EM_AARCH64}
	b.thread(41, 0)
	b.note(noteARMTLS, words(0x7777))
	c = b.read(t, noFiles)
	regs := c.Threads[0].Regs
	require.Equal(t, [4]uint64{1032, 1031, 1029, 1030}, [4]uint64{regs.PC, regs.SP, regs.FP, regs.LR})
	require.Equal(t, uint64(0x7777), c.Threads[0].ThreadPointer)
	require.Nil(t, c.Signal)
	require.Equal(t, uint32(41), c.PID, "without an NT_PRPSINFO, the first thread's")
}

// TestMemory: memory is read from the core, or else from the mapped file; all other memory cannot be read.
func TestMemory(t *testing.T) {
	b := builder{machine: elf.EM_X86_64}
	b.thread(1, 0)
	b.files(mappedFile{start: 0x10000, end: 0x13000, offset: 0x1000, path: "/data"})
	b.loads = []load{
		{vaddr: 0x10000, data: bytes.Repeat([]byte{'c'}, 4096), memsz: 0x3000},
		{vaddr: 0x20000, data: bytes.Repeat([]byte{'d'}, 4096), memsz: 0x2000},
	}
	content := bytes.Repeat([]byte{'f'}, 0x2800)
	c := b.read(t, func(path string) (*file, error) {
		require.Equal(t, "/data", path)
		return &file{ReaderAt: bytes.NewReader(content), size: uint64(len(content))}, nil
	})
	read := func(addr int64, n int) string {
		got := make([]byte, n)
		n, err := c.Memory().ReadAt(got, addr)
		require.Equal(t, n == len(got), err == nil)
		return string(got[:n])
	}
	require.Equal(t, "cc", read(0x10ffe, 2))
	require.Equal(t, "ccff", read(0x10ffe, 4), "from the core to the file")
	require.Equal(t, "f\x00\x00", read(0x117ff, 3), "zeros until the end of the page")
	require.Equal(t, "", read(0x12000, 1), "after the last page of the file")
	require.Equal(t, "dd", read(0x20ffe, 8), "not dumped, and of no file")
	require.Equal(t, "", read(0x5000, 1))
}

// TestTruncated: a core that ends early is read as far as possible, with a note.
func TestTruncated(t *testing.T) {
	b := builder{machine: elf.EM_X86_64}
	b.thread(1, 6)
	b.loads = []load{{vaddr: 0x1000, data: bytes.Repeat([]byte{'x'}, 8192)}}
	all := b.bytes()
	c, err := readCore(bytes.NewReader(all[:len(all)-4096]), Options{}, noFiles)
	require.NoError(t, err)
	require.Contains(t, c.Notes[0], "truncated: 4096 of ")
	got := make([]byte, 8192)
	n, err := c.Memory().ReadAt(got, 0x1000)
	require.Error(t, err)
	require.Equal(t, 4096, n)

	_, err = readCore(bytes.NewReader(all[:100]), Options{}, noFiles)
	require.ErrorContains(t, err, "truncated too early")
	_, err = readCore(bytes.NewReader(all[:headerSize+2*programSize+200]), Options{}, noFiles)
	require.ErrorContains(t, err, "no threads")
}

// TestNotCores: an unreadable file has a sentence that says why.
func TestNotCores(t *testing.T) {
	b := builder{machine: elf.EM_RISCV}
	b.thread(1, 0)
	executable := (&builder{machine: elf.EM_X86_64}).bytes()
	order.PutUint16(executable[16:], uint16(elf.ET_EXEC))
	for want, content := range map[string][]byte{
		"it is not an ELF file": []byte("#!/bin/sh\n"), "EM_RISCV": b.bytes(), "its type is ET_EXEC": executable,
		"no threads": (&builder{machine: elf.EM_X86_64}).bytes(),
	} {
		_, err := readCore(bytes.NewReader(content), Options{}, noFiles)
		require.ErrorContains(t, err, want)
	}
}

// TestStartStack: the number of arguments is found below the auxiliary vector.
func TestStartStack(t *testing.T) {
	for arguments := range 4 {
		const top = 0x7fff00000000
		vector := words(auxRandom, top+0x8000, 6, 4096, auxPHDR, 0x400040, 0, 0)
		stack := words(0xdead, 0xbeef)
		begin := uint64(top + len(stack))
		stack = append(stack, words(uint64(arguments))...)
		for range arguments {
			stack = append(stack, words(top+0x9000)...)
		}
		stack = append(stack, words(0, top+0x9100, top+0x9200, top+0x9300, top+0x9400, 0)...)
		stack = append(append(stack, vector...), make([]byte, 0xa000)...)
		b := builder{machine: elf.EM_X86_64, loads: []load{{vaddr: top, data: stack}}}
		b.thread(1, 0)
		b.note(noteAUXV, vector)
		require.Equal(t, begin, b.read(t, noFiles).StartStack(), "%d arguments", arguments)
	}
}

// TestMappings: pieces of executable segments are of the file that was mapped there, unless it has changed.
func TestMappings(t *testing.T) {
	b := builder{machine: elf.EM_X86_64}
	b.thread(1, 0)
	b.note(noteAUXV, words(auxVDSO, 0x90000))
	b.files(
		mappedFile{start: 0x11000, end: 0x12000, offset: 0x1000, path: "/lib/same"},
		mappedFile{start: 0x12000, end: 0x13000, path: "/lib/gone"},
	)
	b.loads = []load{
		{vaddr: 0x10000, flags: elf.PF_R | elf.PF_X, memsz: 0x4000},
		{vaddr: 0x20000, flags: elf.PF_R | elf.PF_W, memsz: 0x1000},
		{vaddr: 0x90000, flags: elf.PF_R | elf.PF_X, memsz: 0x2000},
	}
	c := b.read(t, func(path string) (*file, error) {
		if path == "/lib/gone" {
			return nil, fs.ErrNotExist
		}
		return &file{ReaderAt: bytes.NewReader(nil), dev: 3, inode: 4}, nil
	})
	const code = procfs.Read | procfs.Exec
	require.Equal(t, []procfs.Mapping{
		{Start: 0x10000, End: 0x11000, Perms: code},
		{Start: 0x11000, End: 0x12000, Offset: 0x1000, Perms: code, Dev: 3, Inode: 4, Path: "/lib/same"},
		{Start: 0x12000, End: 0x13000, Perms: code}, {Start: 0x13000, End: 0x14000, Perms: code},
		{Start: 0x90000, End: 0x92000, Perms: code, Path: procfs.VDSO},
	}, c.Mappings)
	require.Equal(t, []string{"/lib/gone does not exist: its frames have no names"}, c.Notes)
	require.Equal(t, "/lib/gone", c.PathAt(0x12345))
	require.Empty(t, c.PathAt(0x13000))
}

// FuzzCore: reading a malformed core does not panic, hang or take much memory.
func FuzzCore(f *testing.F) {
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		b := builder{machine: machine}
		b.thread(1, 11)
		b.note(noteSIGINFO, words(11, 1, 0x1234, 0))
		b.note(noteAUXV, words(auxRandom, 0x400100, auxPHDR, 0x400040, 0, 0))
		b.note(notePRPSINFO, make([]byte, 136))
		b.files(mappedFile{start: 0x400000, end: 0x401000, path: "/bin/x"})
		b.loads = []load{{vaddr: 0x400000, flags: elf.PF_X, data: make([]byte, 512), memsz: 4096}}
		f.Add(b.bytes())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		open := func(string) (*file, error) {
			return &file{ReaderAt: bytes.NewReader(content), size: uint64(len(content))}, nil
		}
		c, err := readCore(bytes.NewReader(content), Options{Executable: "/bin/y"}, open)
		if err != nil {
			return
		}
		c.StartStack()
		b := make([]byte, 64)
		for _, thread := range c.Threads {
			for _, addr := range []uint64{thread.Regs.PC, thread.Regs.SP, thread.ThreadPointer, 1<<64 - 8} {
				if n, _ := c.Memory().ReadAt(b, int64(addr)); n > len(b) {
					t.Fatalf("%d bytes read", n)
				}
			}
		}
		last := uint64(0)
		for _, m := range c.Mappings {
			if m.Start >= m.End || m.Start < last {
				t.Fatalf("mapping %+v after 0x%x", m, last)
			}
			last = m.Start
		}
	})
}
