package process

import (
	"debug/elf"
	"encoding/binary"
	"hash/maphash"
	"io"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/codeflow"
	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// maxCallee is the most code of a function that is followed to see whether an instruction is in it.
	maxCallee = 16 << 10
	// maxCallees bounds the functions that are remembered, of 2 KiB each.
	maxCallees = 512
)

// callees remembers functions that are called. Safe for concurrent use.
type callees struct {
	mu     sync.Mutex
	of     map[calleePlace]*callee
	follow allowance
}

// calleePlace is where a function starts: an ELF virtual address of an executable, or an address of a process.
type calleePlace struct {
	exe  unwind.ExeID // 0: of the process
	pid  uint32       // 0: of the executable
	addr uint64
}

// callee is the code that a function reaches without a call.
type callee struct {
	anywhere bool   // it leaves for code that is not known
	hash     uint64 // of the code that was read
	start    uint64
	bytes    [maxCallee / 64]uint64 // a bit for each byte of its instructions
}

// reaches reports whether pc may be in the function.
func (c *callee) reaches(pc uint64) bool {
	at := pc - c.start
	return c.anywhere || at < maxCallee && c.bytes[at/64]>>(at%64)&1 != 0
}

// MayCall reports whether the call before the address ra may have called the function that the address pc is in. It is
// false only where the code shows that: the call is a direct one, and what it calls never goes to pc without a call.
// Addresses are those of frames: of the process, or ELF virtual addresses of an executable.
func (v *View) MayCall(raExe unwind.ExeID, ra uint64, pcExe unwind.ExeID, pc uint64) bool {
	if v.Machine() != elf.EM_X86_64 || raExe != pcExe {
		return true
	}
	image := v.codeOf(raExe)
	if image == nil {
		return true
	}
	var code [8]byte
	if image.ReadVaddr(code[:], ra-8) != nil || code[3] != 0xe8 || code[6] == 0xff || code[5] == 0xff {
		return true // not a direct call alone
	}
	addr := ra + uint64(int64(int32(binary.LittleEndian.Uint32(code[4:]))))
	at := calleePlace{exe: raExe, addr: addr}
	if at.exe == 0 {
		at.pid = v.pid
	}
	c := v.tracker.callees.get(image, v.Machine(), at)
	return c == nil || c.reaches(pc)
}

// get returns a function, nil if too many were followed lately. Code of a process is read again: it may have changed.
func (c *callees) get(image codeflow.Image, machine elf.Machine, at calleePlace) *callee {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of[at]
	if known != nil && at.pid == 0 {
		return known
	}
	code := readCallee(image, at.addr)
	hash := maphash.Bytes(seed, code.bytes)
	if known != nil && known.hash == hash {
		return known
	}
	if !c.follow.take(time.Now()) {
		return nil
	}
	found := code.follow(machine)
	found.hash = hash
	if c.of == nil || len(c.of) >= maxCallees {
		c.of = map[calleePlace]*callee{}
	}
	c.of[at] = found
	return found
}

var seed = maphash.MakeSeed()

// calleeCode is the code from the start of a function on. It is a codeflow.Image.
type calleeCode struct {
	codeflow.Image // of all other code
	start          uint64
	bytes          []byte
}

// readCallee reads the code from an address on, as much as there is.
func readCallee(image codeflow.Image, start uint64) calleeCode {
	for size := maxCallee; size > 0; size /= 4 {
		if code := make([]byte, size); image.ReadVaddr(code, start) == nil {
			return calleeCode{image, start, code}
		}
	}
	return calleeCode{image, start, nil}
}

// ReadVaddr reads what the code was when it was read first.
func (c calleeCode) ReadVaddr(p []byte, vaddr uint64) error {
	if at := vaddr - c.start; at < uint64(len(c.bytes)) && len(p) <= len(c.bytes[at:]) {
		copy(p, c.bytes[at:])
		return nil
	}
	return c.Image.ReadVaddr(p, vaddr)
}

// follow follows the function that the code starts with.
func (c calleeCode) follow(machine elf.Machine) *callee {
	out := &callee{start: c.start}
	f, err := codeflow.Follow(c, c.start, c.start+uint64(len(c.bytes)), codeflow.Options{Machine: machine})
	if err != nil || f.Unfollowed != 0 {
		out.anywhere = true
		return out
	}
	for _, in := range f.Instructions {
		if in.Kind == codeflow.Leave || in.Kind == codeflow.Slot {
			out.anywhere = true
		}
		for at := in.Addr - c.start; at < in.Addr-c.start+uint64(in.Length) && at < maxCallee; at++ {
			out.bytes[at/64] |= 1 << (at % 64)
		}
	}
	return out
}

// codeOf returns the code of an executable, or with 0 that of the process in no file; nil if it is not to be had.
func (v *View) codeOf(id unwind.ExeID) codeflow.Image {
	if id == 0 {
		return processCode{v.tracker.memory(v.pid)}
	}
	for _, m := range v.mappings {
		if m.exe != nil && m.exe.ID == id {
			if file := m.exe.image.Load().elf; file != nil && !m.remote {
				return file
			}
		}
	}
	return nil
}

// processCode is the code of a process by its addresses. It is a codeflow.Image.
type processCode struct{ memory io.ReaderAt }

func (c processCode) ReadVaddr(p []byte, vaddr uint64) error {
	_, err := c.memory.ReadAt(p, int64(vaddr))
	return err
}
