package process

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// TestTextEnd uses mappings as the kernel reports them while it loads a program.
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

// TestOverlay compares with a page table that has one owner for each page.
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
			m, ok := ms.findMapping(uint64(i)<<12 + 5)
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

// TestNewest compares with mappings that are added one by one.
func TestNewest(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 4000 {
		var added, want mappings
		refs, wanted := map[*Executable]int{}, map[*Executable]int{}
		count := func(refs map[*Executable]int, n int) func(*Executable) {
			return func(e *Executable) { refs[e] += n }
		}
		for range random.IntN(12) {
			start := uint64(random.IntN(40))
			m := mapping{start: start, end: start + 1 + uint64(random.IntN(10)), exe: &Executable{}}
			refs[m.exe], wanted[m.exe] = 1, 1
			added = append(added, m)
			want = want.overlay(mappings{m}, count(wanted, 1), count(wanted, -1))
		}
		before := slices.Clone(added)
		got := added.newest(count(refs, 1), count(refs, -1))
		if !slices.Equal(got, want) {
			t.Fatalf("of %+v:\n%+v, want\n%+v", added, got, want)
		}
		if !maps.Equal(refs, wanted) {
			t.Fatalf("of %+v: references %v, want %v", added, refs, wanted)
		}
		if !slices.Equal(added, before) {
			t.Fatal("newest changed its argument")
		}
	}
}

// BenchmarkNewest uses the mappings of a large process twice, as after lost records, and a process that maps two places
// again and again.
func BenchmarkNewest(b *testing.B) {
	const many = 60_000
	var twice, again mappings
	for i := range uint64(many) {
		twice = append(twice, mapping{start: i % (many / 2) * 2, end: i%(many/2)*2 + 1})
		again = append(again, mapping{start: i % 2, end: i%2 + 2})
	}
	for name, ms := range map[string]mappings{"twice": twice, "again": again} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ms.newest(func(*Executable) {}, func(*Executable) {})
			}
		})
	}
}
