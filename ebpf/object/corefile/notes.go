package corefile

import (
	"bufio"
	"bytes"
	"debug/elf"
	"io"
	"strings"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Types of notes, include/uapi/linux/elf.h.
const (
	notePRSTATUS = 1
	notePRPSINFO = 3
	noteAUXV     = 6
	noteSIGINFO  = 0x53494749
	noteFILE     = 0x46494c45
	noteARMTLS   = 0x401
)

// Types of the auxiliary vector, include/uapi/linux/auxvec.h.
const (
	auxPHDR   = 3
	auxRandom = 25
	auxVDSO   = 33 // AT_SYSINFO_EHDR
)

// Bounds of the notes that are read.
const (
	maxNote        = 64 << 20 // bytes of one note: NT_FILE of 65,530 mappings has up to 20 MiB
	maxThreads     = 1 << 17
	maxFiles       = 1 << 18
	maxAuxiliaries = 256
)

// notes reads the notes of a core.
type notes struct {
	core  *Core
	files []mappedFile
	named bool // the core's PID and names are set
}

// readNotes reads the notes of a segment, until they end or are malformed.
func (n *notes) readNotes(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		var head [12]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			if err != io.EOF {
				n.core.addNote("the core file ends in the middle of its notes")
			}
			return
		}
		nameSize, size, kind := order.Uint32(head[:]), order.Uint32(head[4:]), order.Uint32(head[8:])
		if nameSize > 256 {
			n.core.addNote("a note of the core is malformed: later notes are not read")
			return
		}
		name := make([]byte, padded(nameSize))
		if _, err := io.ReadFull(in, name); err != nil {
			n.core.addNote("the core file ends in the middle of its notes")
			return
		}
		if !wanted(kind) || size > maxNote {
			if _, err := in.Discard(int(padded(size))); err != nil {
				n.core.addNote("the core file ends in the middle of its notes")
				return
			}
			continue
		}
		data, err := io.ReadAll(io.LimitReader(in, int64(padded(size))))
		if err != nil || len(data) < int(size) {
			n.core.addNote("the core file ends in the middle of its notes")
			return
		}
		n.addNote(kind, data[:size])
	}
}

// padded rounds a size up to the next multiple of four.
func padded(size uint32) uint64 { return (uint64(size) + 3) &^ 3 }

func wanted(kind uint32) bool {
	switch kind {
	case notePRSTATUS, notePRPSINFO, noteAUXV, noteSIGINFO, noteFILE, noteARMTLS:
		return true
	}
	return false
}

func (n *notes) addNote(kind uint32, data []byte) {
	switch kind {
	case notePRSTATUS:
		n.addThread(data)
	case notePRPSINFO:
		n.addProcess(data)
	case noteAUXV:
		n.addVector(data)
	case noteSIGINFO:
		n.addSignal(data)
	case noteFILE:
		n.addFiles(data)
	case noteARMTLS:
		if last := len(n.core.Threads) - 1; last >= 0 && len(data) >= 8 {
			n.core.Threads[last].ThreadPointer = order.Uint64(data)
		}
	}
}

// Offsets in elf_prstatus of 64-bit machines, include/linux/elfcore.h.
const (
	statusSignal    = 12
	statusPID       = 32
	statusRegisters = 112
)

// addThread adds the thread of an NT_PRSTATUS. The first one is the thread that the signal was for.
func (n *notes) addThread(data []byte) {
	c := n.core
	if len(c.Threads) >= maxThreads || len(data) < statusRegisters {
		return
	}
	t := Thread{TID: order.Uint32(data[statusPID:])}
	if !t.setRegisters(c.Machine, data[statusRegisters:]) {
		return
	}
	if signal := order.Uint16(data[statusSignal:]); len(c.Threads) == 0 && signal != 0 {
		t.Pending = true
		c.Signal = &Signal{Number: int(signal)}
	}
	c.Threads = append(c.Threads, t)
}

// setRegisters sets the registers from a struct user_regs_struct of x86-64, or user_pt_regs of arm64.
func (t *Thread) setRegisters(machine elf.Machine, b []byte) bool {
	word := func(i int) uint64 { return order.Uint64(b[8*i:]) }
	if machine == elf.EM_AARCH64 {
		const words = 34 // x0 to x30, sp, pc, pstate
		if len(b) < 8*words {
			return false
		}
		t.Regs = unwind.Regs{PC: word(32), SP: word(31), FP: word(29), LR: word(30), LRKnown: true, Exact: true,
			Thread: word(28)}
		return true
	}
	const words = 27
	if len(b) < 8*words {
		return false
	}
	// rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15: the order of DWARF.
	numbers := [16]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0}
	t.Regs = unwind.Regs{PC: word(16), SP: word(19), FP: word(4), Exact: true, Full: true}
	for i, at := range numbers {
		t.Regs.General[i] = word(at)
	}
	t.ThreadPointer = word(21) // fs_base
	t.Regs.Thread = t.ThreadPointer
	return true
}

// addProcess reads an elf_prpsinfo of 64-bit machines.
func (n *notes) addProcess(data []byte) {
	const pid, name, arguments, size = 24, 40, 56, 136
	if n.named || len(data) < size {
		return
	}
	n.named = true
	n.core.PID = order.Uint32(data[pid:])
	n.core.Name = cText(data[name:arguments])
	n.core.Command = strings.TrimSpace(cText(data[arguments:size]))
}

func cText(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(before), "?")
}

func (n *notes) addVector(data []byte) {
	if len(n.core.auxiliar) > 0 {
		return
	}
	for b := data; len(b) >= 16 && len(n.core.auxiliar) < maxAuxiliaries; b = b[16:] {
		n.core.auxiliar[order.Uint64(b)] = order.Uint64(b[8:])
	}
	n.core.vector = data[:min(len(data), 16*maxAuxiliaries)]
}

// Signals that come with an address, see sigaction(2): SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const locatedSignals = 1<<4 | 1<<5 | 1<<7 | 1<<8 | 1<<11

// addSignal reads the siginfo_t of the first thread.
func (n *notes) addSignal(data []byte) {
	s := n.core.Signal
	if s == nil || s.Code != 0 || s.Located || len(data) < 24 || len(n.core.Threads) != 1 {
		return
	}
	if int(int32(order.Uint32(data))) != s.Number {
		return
	}
	s.Code = int32(order.Uint32(data[8:]))
	if s.Number < 64 && locatedSignals&(1<<s.Number) != 0 && s.Code > 0 {
		s.Address, s.Located = order.Uint64(data[16:]), true
	}
}

// addFiles reads an NT_FILE: a count, the size of a page, the start, the end and the page of the file of each mapping,
// and then all paths.
func (n *notes) addFiles(data []byte) {
	if len(data) < 16 || len(n.files) > 0 {
		return
	}
	count, page := order.Uint64(data), order.Uint64(data[8:])
	if count > maxFiles || page == 0 || page > 1<<20 || count*24 > uint64(len(data)-16) {
		n.core.addNote("the core's list of files is malformed: it is not used")
		return
	}
	ranges, paths := data[16:16+24*count], data[16+24*count:]
	for len(ranges) > 0 {
		path, rest, ok := bytes.Cut(paths, []byte{0})
		if !ok {
			n.core.addNote("the core's list of files is malformed: it ends early")
			return
		}
		f := mappedFile{start: order.Uint64(ranges), end: order.Uint64(ranges[8:]), path: string(path)}
		f.offset, f.from = order.Uint64(ranges[16:])*page, f.path
		if f.start < f.end && f.offset < 1<<62 {
			n.files = append(n.files, f)
		}
		ranges, paths = ranges[24:], rest
	}
}

// finish sets the fields that need all notes.
func (n *notes) finish() {
	c := n.core
	if !n.named {
		c.PID = c.Threads[0].TID
	}
	if c.Command == "" {
		c.Command = c.Name
	}
}
