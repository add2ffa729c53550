package process

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// JITCode is the code that a language runtime generates in one process. An executable without a file stands for it; the
// executable's ELF virtual addresses are addresses in the process minus a base. Safe for concurrent use.
type JITCode struct {
	PID uint32 // of the process

	store     Store
	exe       *Executable
	low, high uint64        // range of its possible addresses
	base      uint64        // address of ELF virtual address 0
	code      language.Code // building of exe's image guards it and the fields below

	checked time.Time
	pause   time.Duration // until the next check
	used    atomic.Bool   // samples of the process came since the last check
}

const (
	// codePageShift is log2 of the bytes that a page of rows covers. Pages are small because code is generated all the
	// time, and then its page is built again.
	codePageShift = 13
	// checkPause is the pause between comparisons of the pages with the runtime's present code. It grows, up to
	// maxCheckPause, so that comparisons take at most a checkShare-th of the time, including waits for a busy CPU.
	checkPause    = time.Second
	maxCheckPause = 10 * time.Second
	checkShare    = 200
)

// addCode reserves a directory for the code that a runtime generates in a process. The caller gets a reference to the
// code's executable.
func (x *executables) addCode(pid uint32, code language.Code) (*JITCode, error) {
	low, high := code.Bounds()
	c := &JITCode{PID: pid, store: x.store, low: low, high: high, base: language.Base(low), code: code, pause: checkPause}
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

// codeOf returns the code that an executable stands for, or false for a file.
func (x *executables) codeOf(exe unwind.ExeID) (*JITCode, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.code[exe]
	return c, ok
}

// checkCode drops the pages of code that no longer exists.
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

// mapping returns the range where the runtime may put code, as one mapping.
func (c *JITCode) mapping() mapping {
	return mapping{start: c.low, end: c.high, bias: c.base, exe: c.exe}
}

// check drops the pages of code that no longer exists. It returns at once if no samples came since the last check, or
// if that was a moment ago.
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
	i.dropPages(c.store, c.code.Changed(resident))
	c.checked = time.Now()
	c.pause = min(max(checkPause, checkShare*c.checked.Sub(now)), maxCheckPause)
}

// Exe returns the ID of the executable that stands for the code.
func (c *JITCode) Exe() unwind.ExeID { return c.exe.ID }

// Recheck compares the code at ELF virtual addresses, from the frames of a failed walk, with the present code. It
// reports whether some code has changed; it drops the rows of changed code.
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
	i.dropPages(c.store, changed)
	return len(changed) > 0
}

// Identify returns the number of the code at an ELF virtual address, for a frame of a recent sample taken at time at
// (CLOCK_MONOTONIC, ns). The address may hold other code later.
func (c *JITCode) Identify(vaddr, at uint64) unwind.CodeID {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Identify(vaddr, at)
}

// Name returns the name that stands for the file of the code: "[hotspot]".
func (c *JITCode) Name() string { return c.exe.Path }

// Language returns the name of the language of the code: "java".
func (c *JITCode) Language() string { return c.code.Language() }

// Evaluates reports whether the code has an interpreter that runs a function in a frame at an ELF virtual address.
func (c *JITCode) Evaluates(vaddr uint64) bool {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Evaluates(vaddr)
}

// Frozen reports whether the caller of the code at an ELF virtual address is in the runtime's heap at a time, and
// whether the address is only the return address of such a caller, see [language.Code].
func (c *JITCode) Frozen(vaddr, at uint64) (frozen, returned bool) {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Frozen(vaddr, at)
}

// Freezes reports whether the code at leaf may be about to leave frames that are also in the runtime's heap, see
// [language.Code].
func (c *JITCode) Freezes(leaf, top, at uint64) bool {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Freezes(leaf, top, at)
}

// Address returns the process's address for an ELF virtual address.
func (c *JITCode) Address(vaddr uint64) uint64 { return vaddr + c.base }

// Lines returns the functions at an identified place, the innermost first, or none if they are no longer known. Do not
// modify the result.
func (c *JITCode) Lines(id unwind.CodeID) []language.Line {
	i := c.exe.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	return c.code.Lines(id)
}

// JITCode returns the code that an executable stands for, or false for a file.
func (t *Tracker) JITCode(exe unwind.ExeID) (*JITCode, bool) { return t.exes.codeOf(exe) }
