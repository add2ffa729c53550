package process

import (
	"errors"
	"fmt"
	"path"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/hotspot"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// CodePath is the Path of executables that are no file but code that a HotSpot VM has
// made in one process. Their ELF virtual addresses are addresses in the process, less
// where the code cache begins.
const CodePath = "[hotspot]"

// codeCache is what an Executable needs to have that is code made by a HotSpot VM.
// Executable.building guards it, but for used.
type codeCache struct {
	vm   *hotspot.VM
	base uint64 // of ELF virtual address 0

	pages   map[uint64]*hotspot.Page // those that were made, by number
	checked time.Time
	pause   time.Duration // until they are checked again

	used atomic.Bool // samples of the process came since they were checked

	next  uint32                     // number of the next piece of code
	young map[*hotspot.Code]uint32   // numbers of pieces that had samples
	names [2]map[uint32]hotspot.Code // by number: since the last sweep, and before that
}

const (
	// codePageShift is log2 of the bytes that a page of rows covers: code is made all the
	// time, and with it its page anew, so pages are small.
	codePageShift = 13
	// codeAlign is what base is aligned to: as large as a page can be.
	codeAlign = 1 << unwind.MaxPageShift
	// checkPause is how often pages are compared with what the VM has now, unless that
	// takes more than a checkShare-th of the time.
	checkPause = time.Second
	checkShare = 200
)

// isHotSpot reports whether e is a Java VM, which makes code.
func (e *Executable) isHotSpot() bool {
	return e != nil && e.elf != nil && path.Base(e.Path) == "libjvm.so"
}

// IsCode reports whether e is no file but code made while a process runs.
func (e *Executable) IsCode() bool { return e.code != nil }

// layoutOf returns how the VM that e is lays out its data, by a process that has mapped
// it with a bias.
func (e *Executable) layoutOf(bias uint64, memory hotspot.Memory) (*hotspot.Layout, error) {
	e.building.Lock()
	defer e.building.Unlock()
	if e.layout != nil {
		return e.layout, nil
	}
	layout, err := hotspot.ReadLayout(e.elf, bias, memory)
	if err == nil {
		e.layout = layout
	}
	return layout, err
}

// newCode returns the code that a VM makes in a process.
func (x *executables) newCode(pid uint32, vm *hotspot.VM) (*Executable, error) {
	low, high := vm.Bounds()
	c := &codeCache{vm: vm, base: low &^ (codeAlign - 1), pages: map[uint64]*hotspot.Page{}, pause: checkPause}
	c.forgetNames()
	shift := uint8(codePageShift)
	for shift < unwind.MaxPageShift && (high-c.base)>>shift >= maxPages {
		shift++
	}
	directory, err := x.store.AddDirectory(0, uint32((high-c.base)>>shift)+1, shift)
	if err != nil {
		return nil, fmt.Errorf("code of process %d: %w", pid, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := &Executable{Path: CodePath, PID: pid, code: c, directory: directory}
	x.number(e)
	e.refs++
	return e, nil
}

// page makes a page.
func (c *codeCache) page(n uint64, shift uint8) (*unwind.Page, error) {
	made, err := c.vm.Page(n, shift, c.base, c.pages[n])
	if err != nil {
		return nil, err
	}
	c.pages[n] = made
	return made.Rows, nil
}

// check drops the pages that are about code that is no longer there. It does nothing
// while no samples come, or if it was done just now.
func (e *Executable) check(store Store, now time.Time) {
	c := e.code
	e.building.Lock()
	defer e.building.Unlock()
	if now.Sub(c.checked) < c.pause || !c.used.Swap(false) {
		return
	}
	for n := range c.pages {
		if _, resident := store.Rule(e.directory, n<<e.directory.Shift); !resident {
			delete(c.pages, n)
		}
	}
	e.drop(store, c.vm.Changed(c.pages))
	c.checked = time.Now()
	c.pause = max(checkPause, checkShare*c.checked.Sub(now))
}

// drop drops pages. It reports whether there were any.
func (e *Executable) drop(store Store, pages []uint64) bool {
	for _, n := range pages {
		store.DropPage(e.directory, n)
		delete(e.code.pages, n)
	}
	return len(pages) > 0
}

// forgetNames forgets the names that were of no use since it was called before.
func (c *codeCache) forgetNames() {
	c.names[1] = c.names[0]
	c.names[0], c.young = map[uint32]hotspot.Code{}, map[*hotspot.Code]uint32{}
}

// numberShift is where the number of a piece of code is in an address.
const numberShift = 32

// identify returns the number of the piece of code at an address, 0 if there is none.
func (e *Executable) identify(vaddr uint64) uint32 {
	e.building.Lock()
	defer e.building.Unlock()
	c := e.code
	page := c.pages[e.directory.Page(vaddr)]
	if page == nil {
		return 0
	}
	code := page.Find(vaddr + c.base)
	if code == nil {
		return 0
	}
	n, ok := c.young[code]
	if !ok {
		c.next++
		n = c.next
		c.young[code], c.names[0][n] = n, *code
	}
	return n
}

// CodeName returns the address in the process that the address of a frame stands for to
// which was added what Identify said, and what the code there was called; "" if that is not known.
func (e *Executable) CodeName(identified uint64) (addr uint64, name string) {
	e.building.Lock()
	defer e.building.Unlock()
	addr = identified&(1<<numberShift-1) + e.code.base
	for _, names := range e.code.names {
		if code, ok := names[uint32(identified>>numberShift)]; ok {
			return addr, code.Name
		}
	}
	return addr, ""
}

// Identify returns what is to be added to the address of a frame, if its executable is
// code made while a process runs: it tells which code is there now, at the address at,
// the frame's own or of the call before it. The same address may be other code later.
func (t *Tracker) Identify(exe uint32, at uint64) (add uint64, ok bool) {
	e := t.Executable(exe)
	if e == nil || e.code == nil {
		return 0, false
	}
	return uint64(e.identify(at)) << numberShift, true
}

// HasCode reports whether a process makes code while it runs. Frames of no other have
// addresses to be identified.
func (t *Tracker) HasCode(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	return p != nil && p.vm.code != nil
}

// Recheck compares the code that frames of a failed walk are in, at ELF virtual
// addresses of one executable, with what is there now. It reports whether some is no
// longer the same; what the walk went by is dropped then.
func (t *Tracker) Recheck(exe uint32, vaddrs []uint64) bool {
	e := t.Executable(exe)
	if e == nil || e.code == nil {
		return false
	}
	e.building.Lock()
	defer e.building.Unlock()
	pages := map[uint64]*hotspot.Page{}
	for _, vaddr := range vaddrs {
		n := e.directory.Page(vaddr)
		if p := e.code.pages[n]; p != nil {
			pages[n] = p
		}
	}
	return e.drop(t.store, e.code.vm.Changed(pages))
}

// virtualMachine is what is known of the Java VM that a process runs.
type virtualMachine struct {
	library *Executable // libjvm; nil: there is none
	bias    uint64
	code    *Executable      // nil: not found yet
	waiting []procfs.Mapping // of anonymous memory, until it is known whether the VM's code is there
	failed  bool             // it will never be known
	first   time.Time        // when the code was looked for at first
	tried   time.Time        // and at last
}

// A VM that has not begun yet is looked for again after retryVM, until retriesVM have passed.
const (
	retryVM   = 10 * time.Millisecond
	retriesVM = 10 * time.Second
)

// holds reports whether m is of the VM's code, or may be.
func (v *virtualMachine) holds(m *procfs.Mapping) bool {
	if v.library == nil || v.failed || m.Inode != 0 || m.Path != "" && m.Path != "//anon" {
		return false
	}
	if v.code == nil {
		return true
	}
	low, high := v.code.code.vm.Bounds()
	return m.Start < high && m.End > low
}

// findCode looks for the code of p's VM, if it has one. Until that is found, walks
// that meet memory that may be it end there, as they do where nothing is known.
func (t *Tracker) findCode(p *Process) {
	v := &p.vm
	if len(v.waiting) == 0 || v.code != nil || time.Since(v.tried) < retryVM {
		return
	}
	if v.tried = time.Now(); v.first.IsZero() {
		v.first = v.tried
	}
	memory := procfs.Memory{PID: p.PID}
	code, err := t.openCode(p.PID, v, memory)
	switch {
	case errors.Is(err, hotspot.ErrNotReady) && v.tried.Sub(v.first) < retriesVM:
		return
	case err != nil:
		if !procfs.Gone(err) && !errors.Is(err, hotspot.ErrNotHotSpot) {
			t.note(fmt.Errorf("Java VM: %w", err))
		}
		v.failed = true
	default:
		v.code = code
		p.added = append(p.added, codeMapping(code))
	}
	waiting := v.waiting
	v.waiting = nil
	for _, m := range waiting {
		t.addMapping(p, m, "")
	}
}

func (t *Tracker) openCode(pid uint32, v *virtualMachine, memory hotspot.Memory) (*Executable, error) {
	layout, err := v.library.layoutOf(v.bias, memory)
	if err != nil {
		return nil, err
	}
	vm, err := hotspot.Open(layout, v.bias, memory)
	if err != nil {
		return nil, err
	}
	return t.exes.newCode(pid, vm)
}

// codeMapping is where a VM may put code, all in one.
func codeMapping(e *Executable) mapping {
	low, high := e.code.vm.Bounds()
	return mapping{start: low, end: high, bias: e.code.base, exe: e}
}
