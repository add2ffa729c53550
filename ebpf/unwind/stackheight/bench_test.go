package stackheight

import (
	"debug/elf"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// BenchmarkRules analyzes as much code as one page of a gap needs.
func BenchmarkRules(b *testing.B) {
	f, err := elf.Open(ehtest.Files(b)[0])
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text := f.Section(".text")
	const size = 13 << 10
	code := make([]byte, size)
	if _, err := text.ReadAt(code, int64(text.Size/2)); err != nil {
		b.Fatal(err)
	}
	addr := text.Addr + text.Size/2
	b.SetBytes(size)
	var a Analysis
	for b.Loop() {
		gap := Gap{Start: text.Addr, End: text.Addr + text.Size, Addr: addr, Text: code}
		a.Rules(gap, func(uint64, int, Rule) bool { return true })
	}
}
