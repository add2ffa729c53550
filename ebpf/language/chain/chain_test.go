package chain

import (
	"encoding/binary"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
)

// foreign is memory with arbitrary bytes, repeated at all addresses.
type foreign struct {
	bytes []byte
	reads int
}

func (m *foreign) Read(addr uint64, b []byte) bool {
	m.reads++
	if len(m.bytes) == 0 || addr%64 == 63 {
		return false
	}
	for i := range b {
		b[i] = m.bytes[(addr+uint64(i))%uint64(len(m.bytes))]
	}
	return true
}

// FuzzWalk: the work is bounded for any memory.
func FuzzWalk(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8}, uint64(0x1000), true)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1}, uint64(8), false)
	f.Fuzz(func(t *testing.T, memory []byte, bias uint64, find bool) {
		c := &language.Chain{
			Start: []language.Step{{Op: language.Global, Offset: 8}, {Op: language.Load}},
			Frame: language.Layout{
				Blocks: []language.Block{{Bytes: 128}, {At: language.Word{Offset: 8}, Bytes: 128}},
				Words:  []language.Word{{}, {Offset: 8}, {Block: 1, Offset: 120}},
				Cookie: []language.Word{{Block: 1}},
				Code:   1,
			},
			Next: language.Next{Mask: ^uint64(1)},
			Stop: &language.Test{Word: 2, Mask: 0xff, Value: 1},
		}
		if find {
			c.Find = &language.Find{To: language.ByTID, Next: 8}
		}
		if err := (&language.Spec{Chain: c}).Check(); err != nil {
			t.Fatal(err)
		}
		m, frames := &foreign{bytes: memory}, 0
		Walk(c, Thread{Pointer: bias, ID: 7, Bias: bias}, m, func(words []uint64, _ uint64) {
			frames++
			if len(words) != len(c.Frame.Words) {
				t.Fatalf("%d words", len(words))
			}
		})
		if frames > MaxFrames || m.reads > language.MaxSteps+2*maxNodes+language.MaxBlocks*(MaxFrames+1) {
			t.Errorf("%d frames, %d reads", frames, m.reads)
		}
	})
}

// flat is memory that starts at address 0.
type flat []byte

func (m flat) Read(addr uint64, b []byte) bool {
	if addr > uint64(len(m)) || uint64(len(b)) > uint64(len(m))-addr {
		return false
	}
	copy(b, m[addr:])
	return true
}

// TestWalkEnds: each way to end a chain has its ChainEnd.
func TestWalkEnds(t *testing.T) {
	frame := language.Layout{Blocks: []language.Block{{Bytes: 16}}, Words: []language.Word{{}, {Offset: 8}}, Code: -1}
	load := []language.Step{{Op: language.Absolute}, {Op: language.Load, Offset: 8}}
	for _, c := range []struct {
		about  string
		words  []uint64
		chain  language.Chain
		end    language.ChainEnd
		frames int
	}{
		{"whole", []uint64{0, 16, 32, 1, 0, 2}, language.Chain{}, language.ChainWhole, 2},
		{"the thread runs nothing", []uint64{0, 0}, language.Chain{}, language.ChainNoThread, 0},
		{"no way", []uint64{}, language.Chain{}, language.ChainNoStart, 0},
		{"a frame is nowhere", []uint64{0, 16, 1 << 20, 1}, language.Chain{}, language.ChainUnreadable, 1},
		{"a circle", []uint64{0, 16, 16, 1}, language.Chain{}, language.ChainTooLong, MaxFrames},
		{"an array", []uint64{0, 16, 7, 1, 7, 1, 9, 1}, language.Chain{
			Next: language.Next{Word: -1, Offset: 16}, Stop: &language.Test{Mask: 0xf, Value: 9},
		}, language.ChainWhole, 2},
		{"no thread in the list", []uint64{0, 16, 0, 5}, language.Chain{
			Find: &language.Find{Word: 8, To: language.ByTID},
		}, language.ChainThreadNotFound, 0},
		{"an index beyond its limit", []uint64{3, 16, 0, 5}, language.Chain{
			Then: []language.Step{{Op: language.Index, Scale: 8, Limit: 3}},
		}, language.ChainNoStart, 0},
		{"an index", []uint64{2, 16, 1, 1, 0, 5}, language.Chain{
			Then: []language.Step{{Op: language.Index, Scale: 8, Limit: 3}},
		}, language.ChainWhole, 1},
	} {
		var memory flat
		for _, w := range c.words {
			memory = binary.LittleEndian.AppendUint64(memory, w)
		}
		c.chain.Start, c.chain.Frame = load, frame
		if err := (&language.Spec{Chain: &c.chain}).Check(); err != nil {
			t.Fatal(err)
		}
		frames := 0
		end := Walk(&c.chain, Thread{ID: 7}, memory, func([]uint64, uint64) { frames++ })
		if end != c.end || frames != c.frames {
			t.Errorf("%s: %d frames, %s, want %d, %s", c.about, frames, end, c.frames, c.end)
		}
	}
}
