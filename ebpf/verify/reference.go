package verify

import (
	"debug/elf"
	"fmt"
	"runtime"

	"github.com/headwater/headwater/ebpf/cfi"
	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
)

const (
	// maxFrames bounds the reference walk: more than any other walk has.
	maxFrames = 2048
	// maxModules bounds the files held open.
	maxModules = 256
)

// reference walks copies of stacks by complete call frame information.
type reference struct {
	tracker *process.Tracker
	machine cfi.Machine
	modules map[uint32]*module // by executable ID
}

// module is an executable as the reference needs it.
type module struct {
	file  *elffile.File
	table *cfi.Table
	text  []*elffile.SectionReader
	lies  ranges // text that the table is wrong about
	err   error  // why there is none
}

// truth is what the reference walk found.
type truth struct {
	frames []kernel.Frame
	end    cfi.End
	err    error // tells more about the end; may be nil
}

func newReference(t *process.Tracker) (*reference, error) {
	number := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		number = elf.EM_AARCH64
	}
	machine, ok := cfi.MachineOf(number)
	if !ok {
		return nil, fmt.Errorf("verify: unsupported machine %s", runtime.GOARCH)
	}
	return &reference{tracker: t, machine: machine, modules: map[uint32]*module{}}, nil
}

// walk unwinds a copy in the address space that the process had.
func (r *reference) walk(space *process.Space, c *kernel.Copy) truth {
	frame := cfi.Frame{PC: c.PC, Exact: true}
	for number, v := range c.Regs {
		frame.Regs.Set(uint16(number), v)
	}
	view := view{reference: r, space: space, stack: c.Stack, sp: c.SP()}
	var t truth
	t.end, t.err = r.machine.Walk(frame, view, view, maxFrames, func(f *cfi.Frame) {
		exe, vaddr := space.Locate(f.Lookup())
		frame := kernel.Frame{Exe: exe, Address: vaddr + (f.PC - f.Lookup())}
		if !f.Exact {
			frame.Flags = kernel.ReturnAddress
		}
		t.frames = append(t.frames, frame)
	})
	return t
}

// module returns an executable, nil when nothing is known of it.
func (r *reference) module(exe uint32) *module {
	m := r.modules[exe]
	if m != nil {
		return m
	}
	e := r.tracker.Executable(exe)
	if e == nil {
		return nil
	}
	if len(r.modules) >= maxModules {
		r.close()
	}
	m = &module{}
	m.err = m.open(e)
	r.modules[exe] = m
	return m
}

func (m *module) open(e *process.Executable) error {
	if e.IsCode() {
		return cfi.ErrNoCFI
	}
	var err error
	if m.file, err = e.Open(); err != nil {
		return err
	}
	m.text = m.file.OpenText()
	if m.lies, err = goUnchecked(m.file); err != nil {
		return err
	}
	m.table, err = cfi.NewTable(m.file)
	return err
}

// close closes all files.
func (r *reference) close() {
	for _, m := range r.modules {
		if m.file != nil {
			m.file.Close()
		}
	}
	clear(r.modules)
}

// view is the address space of one copy: a cfi.Finder and a cfi.Memory.
type view struct {
	*reference
	space *process.Space
	stack []byte
	sp    uint64
}

// Find returns the rules at an address.
func (v view) Find(addr uint64) (*cfi.Rules, uint64, cfi.End, error) {
	exe, vaddr := v.space.Locate(addr)
	m := v.module(exe)
	switch {
	case m == nil:
		return nil, 0, cfi.NoMapping, nil
	case m.err != nil:
		return nil, 0, cfi.Unset, m.err
	case m.lies.contain(vaddr):
		return nil, 0, cfi.NoCFI, nil
	}
	rules, err := m.table.Find(vaddr)
	return rules, addr - vaddr, cfi.Unset, err
}

// Read reads the copy of the stack, or the text of a file.
func (v view) Read(addr uint64, b []byte) bool {
	at := addr - v.sp
	if addr >= v.sp && at <= uint64(len(v.stack)) && uint64(len(v.stack))-at >= uint64(len(b)) {
		copy(b, v.stack[at:])
		return true
	}
	exe, vaddr := v.space.Locate(addr)
	m := v.module(exe)
	if m == nil {
		return false
	}
	for _, s := range m.text {
		if vaddr < s.Addr || vaddr-s.Addr > s.Size || s.Size-(vaddr-s.Addr) < uint64(len(b)) {
			continue
		}
		n, _ := s.Data.ReadAt(b, int64(vaddr-s.Addr))
		return n == len(b)
	}
	return false
}
