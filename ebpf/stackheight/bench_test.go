package stackheight

import (
	"debug/elf"
	"testing"

	"github.com/headwater/headwater/ebpf/ehframe/ehtest"
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
		a.Rules(Gap{text.Addr, text.Addr + text.Size, addr, code}, func(uint64, int, Rule) bool { return true })
	}
}
