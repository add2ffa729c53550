package cpython

import (
	"encoding/binary"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/headwater/headwater/ebpf/language"
)

// hostile is the memory of a process that answers each read with some of its bytes.
type hostile struct {
	b    []byte
	read int
}

func (h *hostile) ReadAt(b []byte, addr int64) (int, error) {
	h.read += len(b)
	if len(h.b) == 0 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = h.b[(uint64(addr)+uint64(i))%uint64(len(h.b))]
	}
	return len(b), nil
}

func (h *hostile) ReadEach([]uint64, int, []byte) (int, error) { return 0, nil }

// FuzzFunction: for any memory of a process, and any carried data, work and results are bounded.
func FuzzFunction(f *testing.F) {
	plain := make([]byte, 512)
	copy(plain[24:], "code\x00")
	for i := 0; i < len(plain); i += 32 {
		binary.LittleEndian.PutUint64(plain[i:], 24)
	}
	f.Add(uint8(11), plain, uint64(0), uint64(1), uint64(2))
	f.Add(uint8(13), []byte("code\x00\x00\x00\x00"), uint64(8), uint64(0), uint64(3))
	long := append(binary.LittleEndian.AppendUint64(make([]byte, 16), 1<<40), make([]byte, 8)...)
	long = append(binary.LittleEndian.AppendUint64(long, 1<<2|1<<5|1<<6), make([]byte, maxText+100)...)
	f.Add(uint8(11), long, uint64(0), uint64(1), uint64(2)) // a carried name that is too long
	f.Fuzz(func(t *testing.T, minor uint8, b []byte, code, instruction, mark uint64) {
		l, err := layoutOf(8+int(minor%8), func(n uint64) (uint64, error) { return 8 * (n - wordFreeThreaded) % 256, nil })
		if err != nil {
			t.Fatal(err)
		}
		x := newInterpreter(&library{layout: l, minor: l.minor}, nil)
		m := &hostile{b: b}
		frame := x.Frame([]uint64{code, instruction, 0, mark}[:len(x.spec.Chain.Frame.Words)])
		c := &language.CodeObject{Address: frame.Code}
		for _, m := range []language.Memory{m, nil} {
			function, err := x.Function(m, c)
			if err == nil && (!utf8.ValidString(function.Name) || !utf8.ValidString(function.File) || function.StartLine < 0 ||
				utf8.RuneCountInString(function.Name) > maxText || len(function.Table) > language.MaxTable) {
				t.Errorf("%d characters, %d bytes of lines", len(function.Name), len(function.Table))
			}
			x.Lines(&function, frame.IP, false)
			c.Words, c.Text = []uint64{code, instruction, mark, code}, [][]byte{b, b}
		}
		p := language.Process{Memory: m}
		(&library{layout: l, minor: l.minor}).FindFrames(p)
		l.assumed = true
		(&library{layout: l, minor: l.minor}).FindFrames(p)
		if m.read > 1<<20 {
			t.Errorf("%d bytes read", m.read)
		}
	})
}
