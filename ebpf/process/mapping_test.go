package process

import (
	"math/rand/v2"
	"testing"

	"github.com/headwater/headwater/ebpf/elffile"
)

// TestTextEnd has mappings as the kernel reports them while it loads a program.
func TestTextEnd(t *testing.T) {
	text := []elffile.Segment{{Vaddr: 0x400000, Memsz: 0xc53f0}}
	two := append(text, elffile.Segment{Vaddr: 0x500040, Memsz: 0x2000})
	for name, c := range map[string]struct {
		segments []elffile.Segment
		start    uint64 // ELF virtual addresses
		end      uint64
		want     uint64
	}{
		"the segment":           {text, 0x400000, 0x4c6000, 0x4c6000},
		"the whole program":     {text, 0x400000, 0x635000, 0x4c6000},
		"a part of the segment": {text, 0x410000, 0x420000, 0x420000},
		"two segments":          {two, 0x400000, 0x600000, 0x503000},
		"the first of two":      {two, 0x400000, 0x4c6000, 0x4c6000},
		"no text":               {text, 0x4c6000, 0x4d0000, 0x4d0000},
	} {
		const bias = 0x5500_0000_0000
		m := mapping{start: c.start + bias, end: c.end + bias, bias: bias}
		if got := min(m.end, textEnd(m, c.segments)) - bias; got != c.want {
			t.Errorf("%s: up to %#x, want %#x", name, got, c.want)
		}
	}
}

// TestOverlay compares with a page table that knows one owner a page.
func TestOverlay(t *testing.T) {
	const pages = 64
	random := rand.New(rand.NewPCG(3, 4))
	var ms mappings
	owners := [pages]*Executable{}
	refs := map[*Executable]int{}
	keep := func(e *Executable) { refs[e]++ }
	drop := func(e *Executable) { refs[e]-- }
	for range 4000 {
		var added mappings
		for start := random.IntN(pages); start < pages && len(added) < 4; start += random.IntN(6) {
			end := start + 1 + random.IntN(min(pages-start, 12))
			e := &Executable{}
			refs[e] = 1
			added = append(added, mapping{start: uint64(start) << 12, end: uint64(end) << 12, exe: e})
			for i := start; i < end; i++ {
				owners[i] = e
			}
			start = end
		}
		before := ms
		ms = ms.overlay(added, keep, drop)
		if len(before) > 0 && &before[0] == &ms[0] {
			t.Fatal("overlay changed a slice that a Space may still be using")
		}
		pieces := map[*Executable]int{}
		for i, m := range ms {
			pieces[m.exe]++
			if m.start >= m.end || i > 0 && ms[i-1].end > m.start {
				t.Fatalf("mappings %+v are not sorted and apart", ms)
			}
		}
		for i, want := range owners {
			m, ok := ms.find(uint64(i)<<12 + 5)
			if ok != (want != nil) || m.exe != want {
				t.Fatalf("page %d belongs to %p, want %p", i, m.exe, want)
			}
		}
		for e, n := range refs {
			if n != pieces[e] {
				t.Fatalf("%d references to an executable that is mapped %d times", n, pieces[e])
			}
		}
	}
}
