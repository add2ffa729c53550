package symbol

import (
	"slices"
	"sync"
)

// KernelSymbol is code that the kernel makes at run time: a BPF program, or a trampoline.
type KernelSymbol struct {
	Name    string
	File    string // in brackets, like Frame.File in the kernel
	Start   uint64
	Size    uint32
	Removed bool // the code was freed
}

func (k *KernelSymbol) end() uint64 { return k.Start + uint64(k.Size) }

// maxMade bounds the symbols remembered in addition to kallsyms. Some hosts have thousands of BPF programs.
const maxMade = 1 << 16

// madeSymbols are symbols that were added after kallsyms was read. To read kallsyms again for each BPF program would
// take long.
type madeSymbols struct {
	mu   sync.Mutex
	list []KernelSymbol // by start, not overlapping
}

// addSymbol adds a symbol and replaces all symbols that it overlaps, or, if k is removed, marks them as removed.
func (m *madeSymbols) addSymbol(k KernelSymbol) {
	if k.Size == 0 || k.end() < k.Start {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	first, _ := slices.BinarySearchFunc(m.list, k.Start, func(o KernelSymbol, start uint64) int {
		if o.end() <= start {
			return -1
		}
		return 1
	})
	last := first
	for last < len(m.list) && m.list[last].Start < k.end() {
		last++
	}
	if k.Removed {
		for i := first; i < last; i++ {
			m.list[i].Removed = true
		}
		return
	}
	k.Name = validUTF8(k.Name)
	if m.list = slices.Replace(m.list, first, last, k); len(m.list) > maxMade {
		m.list = slices.DeleteFunc(m.list, func(k KernelSymbol) bool { return k.Removed })
		m.list = m.list[:min(len(m.list), maxMade)]
	}
}

// frame names the code at address at.
func (m *madeSymbols) frame(at uint64) (Frame, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := slices.BinarySearchFunc(m.list, at, func(o KernelSymbol, at uint64) int {
		switch {
		case o.end() <= at:
			return -1
		case o.Start > at:
			return 1
		}
		return 0
	})
	if !found {
		return Frame{}, false
	}
	return Frame{Function: m.list[i].Name, File: m.list[i].File, Kind: Kernel}, true
}
