package process

import (
	"debug/elf"
	"encoding/binary"
	"hash/maphash"
	"io"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/codeflow"
)

const (
	// maxCallee bounds the code of a function, in bytes, that is followed to see whether an instruction is in the
	// function.
	maxCallee = 16 << 10
	// maxCallees bounds the remembered functions. Each takes 2 KiB.
	maxCallees = 512
)

// callees remembers called functions. Safe for concurrent use.
type callees struct {
	mu     sync.Mutex
	of     map[calleePlace]*callee
	follow allowance
}

// calleePlace is where a function starts: an ELF virtual address of an executable, or an address of a process.
type calleePlace struct {
	exe  unwind.ExeID // 0 for code of the process that is in no file
	pid  uint32       // 0 for code of an executable
	addr uint64
}

// callee is the code that a function reaches without a call.
type callee struct {
	anywhere bool   // it jumps to unknown code
	hash     uint64 // of the code that was read
	start    uint64
	bytes    [maxCallee / 64]uint64 // a bit for each byte of its instructions
}

// reaches reports whether pc may be in the function.
func (c *callee) reaches(pc uint64) bool {
	at := pc - c.start
	return c.anywhere || at < maxCallee && c.bytes[at/64]>>(at%64)&1 != 0
}

// MayCall reports whether the call before the return address ra may have called the function that contains pc. It is
// false only if the code proves it: the call is direct, and the called function never reaches pc without another call.
// Addresses are as in frames: ELF virtual addresses of an executable, or addresses in the process.
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
		return true // perhaps not a direct call
	}
	addr := ra + uint64(int64(int32(binary.LittleEndian.Uint32(code[4:]))))
	at := calleePlace{exe: raExe, addr: addr}
	if at.exe == 0 {
		at.pid = v.pid
	}
	c := v.tracker.callees.calleeAt(image, v.Machine(), at)
	return c == nil || c.reaches(pc)
}

// calleeAt returns a function, or nil if too many were followed recently. Code of a process is read each time, because
// it may have changed.
func (c *callees) calleeAt(image codeflow.Image, machine elf.Machine, at calleePlace) *callee {
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
	if !c.follow.takeTime(time.Now()) {
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

// calleeCode is a copy of the code from the start of a function on. It is a codeflow.Image.
type calleeCode struct {
	codeflow.Image // for all other code
	start          uint64
	bytes          []byte
}

// readCallee reads the code from an address on, as far as it can be read.
func readCallee(image codeflow.Image, start uint64) calleeCode {
	for size := maxCallee; size > 0; size /= 4 {
		if code := make([]byte, size); image.ReadVaddr(code, start) == nil {
			return calleeCode{image, start, code}
		}
	}
	return calleeCode{image, start, nil}
}

// ReadVaddr reads from the copy if possible, so that the code does not change while it is followed.
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

// codeOf returns the code of an executable or, for ID 0, the code of the process that is in no file. It returns nil if
// the code cannot be read.
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

// processCode is the code of a process, by address. It is a codeflow.Image.
type processCode struct{ memory io.ReaderAt }

func (c processCode) ReadVaddr(p []byte, vaddr uint64) error {
	_, err := c.memory.ReadAt(p, int64(vaddr))
	return err
}
