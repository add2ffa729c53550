package process

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// JITCode is the code that a language runtime makes in one process while it runs. An
// executable without a file stands for it, whose ELF virtual addresses are addresses in the
// process less a base. Safe for concurrent use.
type JITCode struct {
	PID uint32 // of the process

	store     Store
	exe       *Executable
	low, high uint64       // addresses that it may have
	base      uint64       // of ELF virtual address 0
	code      runtime.Code // guarded by the building of exe's image, and so is the rest

	checked time.Time
	pause   time.Duration // until it is checked again
	used    atomic.Bool   // samples of the process came since it was checked
}

const (
	// codePageShift is log2 of the bytes that a page of rows covers: code is made all the
	// time, and its page is then built again, so pages are small.
	codePageShift = 13
	// checkPause is how often pages are compared with what the runtime has now, unless that
	// takes more than a checkShare-th of the time; what waits for a busy CPU takes long, too.
	checkPause    = time.Second
	maxCheckPause = 10 * time.Second
	checkShare    = 200
)

// addCode makes room for the code that a runtime makes in a process. The caller has a
// reference to its executable.
func (x *executables) addCode(pid uint32, code runtime.Code) (*JITCode, error) {
	low, high := code.Bounds()
	c := &JITCode{PID: pid, store: x.store, low: low, high: high, base: runtime.Base(low), code: code, pause: checkPause}
	shift := uint8(codePageShift)
	for shift < unwind.MaxPageShift && (high-c.base)>>shift >= MaxPages {
		shift++
	}
	directory, err := x.store.AddDirectory(0, uint32((high-c.base)>>shift)+1, shift)
	if err != nil {
		return nil, fmt.Errorf("code of process %d: %w", pid, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c.exe = &Executable{Path: code.Path(), refs: 1}
	c.exe.image.Store(&image{
		first: c.exe, rows: code, directory: directory,
		members: map[*Executable]bool{c.exe: true}, users: 1,
	})
	x.number(c.exe)
	x.code[c.exe.ID] = c
	return c, nil
}

// codeOf returns the code that an executable stands for, and false for a file.
func (x *executables) codeOf(exe unwind.ExeID) (*JITCode, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.code[exe]
	return c, ok
}

// checkCode drops the pages of code that is no longer there.
func (x *executables) checkCode() {
	x.mu.Lock()
	var mapped []*JITCode
	for _, c := range x.code {
		if c.exe.refs > 0 {
			mapped = append(mapped, c)
		}
	}
	x.mu.Unlock()
	for _, c := range mapped {
		c.check(time.Now())
	}
}

// mapping is where the runtime may put code, all in one.
func (c *JITCode) mapping() mapping {
	return mapping{start: c.low, end: c.high, bias: c.base, exe: c.exe}
}

// check drops the pages that are about code that is no longer there. It does nothing
// while no samples come, or if it was done just now.
func (c *JITCode) check(now time.Time) {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	if now.Sub(c.checked) < c.pause || !c.used.Swap(false) {
		return
	}
	var resident, evicted []uint64
	for _, n := range c.code.Built() {
		if i.resident(c.store, n) {
			resident = append(resident, n)
		} else {
			evicted = append(evicted, n)
		}
	}
	c.code.Forget(evicted)
	i.drop(c.store, c.code.Changed(resident))
	c.checked = time.Now()
	c.pause = min(max(checkPause, checkShare*c.checked.Sub(now)), maxCheckPause)
}

// Exe returns the ID of the executable that stands for the code.
func (c *JITCode) Exe() unwind.ExeID { return c.exe.ID }

// Recheck compares the code at ELF virtual addresses, of frames of a walk that failed, with
// what is there now. It reports whether some has changed; its rows are dropped then.
func (c *JITCode) Recheck(vaddrs []uint64) bool {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	var pages []uint64
	for _, vaddr := range vaddrs {
		if n := i.directory.Page(vaddr); !slices.Contains(pages, n) {
			pages = append(pages, n)
		}
	}
	changed := c.code.Changed(pages)
	i.drop(c.store, changed)
	return len(changed) > 0
}

// Identify returns the number of the code at an ELF virtual address, of a frame of a sample that was taken at a time,
// CLOCK_MONOTONIC in ns, just now. The same address may be other code later.
func (c *JITCode) Identify(vaddr, at uint64) unwind.CodeID {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Identify(vaddr, at)
}

// Name is what stands for the file of the code: "[hotspot]".
func (c *JITCode) Name() string { return c.exe.Path }

// Evaluates reports whether a frame at an ELF virtual address runs a function of an interpreter among the code.
func (c *JITCode) Evaluates(vaddr uint64) bool {
	evaluator, ok := c.code.(runtime.Evaluator)
	if !ok {
		return false
	}
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return evaluator.Evaluates(vaddr)
}

// Frozen reports whether what called the code at an ELF virtual address is kept in the runtime's heap, and whether that
// is where it would be returned to, see [runtime.Freezing].
func (c *JITCode) Frozen(vaddr, at uint64) (frozen, returned bool) {
	freezing, ok := c.code.(runtime.Freezing)
	if !ok {
		return false, false
	}
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return freezing.Frozen(vaddr, at)
}

// Address returns the address in the process of an ELF virtual address.
func (c *JITCode) Address(vaddr uint64) uint64 { return vaddr + c.base }

// Lines returns the functions at a place that was identified, the innermost first; none if
// they are not known any more. Do not modify the result.
func (c *JITCode) Lines(id unwind.CodeID) []runtime.Line {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Lines(id)
}

// JITCode returns the code that an executable stands for, and false for a file.
func (t *Tracker) JITCode(exe unwind.ExeID) (*JITCode, bool) { return t.exes.codeOf(exe) }
