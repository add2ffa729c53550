package engine

import (
	"encoding/binary"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// CodeAt is a code object of a process, as in a sample. Address 0 means that there is none.
type CodeAt struct{ Address, Cookie uint64 }

// MaxReads bounds the code objects that are read for one sample. The next sample reads the rest.
const MaxReads = 64

// Carried notes the code objects of a process whose names are in a sample.
func (i *Interpreter) Carried(pid uint32, codes []language.CodeObject) {
	now := time.Now()
	for n := range codes {
		c := &codes[n]
		if f, err := i.frames.Function(nil, c); err == nil {
			i.functions.learn(codeKey{pid, c.Address, c.Cookie}, f, now)
		}
	}
}

// Functions appends the numbers of the functions of code objects to ids. It reads unknown functions from the process,
// if that still exists. It maps invalid offsets in places to the end of the function.
func (i *Interpreter) Functions(
	pid uint32, codes []CodeAt, places []uint64, ids []unwind.CodeID,
) []unwind.CodeID {
	now := time.Now()
	known, missing := i.functions.lookUpAll(pid, codes, places, ids, MaxReads, now)
	if len(missing) == 0 || !i.readFunctions(pid, missing) {
		return known
	}
	known, _ = i.functions.lookUpAll(pid, codes, places, ids, 0, now)
	return known
}

// readFunctions reads code objects from the process. It reports false without reading if too few reads are left.
func (i *Interpreter) readFunctions(pid uint32, codes []CodeAt) bool {
	memory := i.engine.reads.memory(pid)
	if memory.hasFewReads() {
		i.engine.Failed(memory.tooMany())
		return false
	}
	i.engine.readWithin(memory, "functions", func() bool {
		for _, c := range codes {
			if !i.readOne(memory, c) {
				return false
			}
		}
		return true
	})
	return true
}

// readOne reads a code object. It is the sample's code object only if its cookie is the sample's before and after the
// read. readOne returns false if too few reads were left.
func (i *Interpreter) readOne(m boundedMemory, c CodeAt) bool {
	now, key, refused := time.Now(), codeKey{m.PID, c.Address, c.Cookie}, m.refused()
	layout := i.frames.Spec().Layout()
	cookie, ok := cookieAt(layout, m, c.Address)
	same := !ok || cookie == c.Cookie
	var f language.Function
	if same {
		var err error
		f, err = i.frames.Function(m, &language.CodeObject{Address: c.Address, Cookie: c.Cookie})
		cookie, ok = cookieAt(layout, m, c.Address)
		same = err == nil && (!ok || cookie == c.Cookie)
	}
	switch {
	case m.refused() != refused:
		return false
	case same:
		f.Whole = true // all is known
		i.functions.learn(key, f, now)
	default:
		m.senseless()
		i.functions.giveUp(key, now)
	}
	return true
}

// cookieAt returns the present cookie of a code object, 0 if it cannot be read. ok is false if the layout has no way
// from the code object to all words of the cookie.
func cookieAt(l *language.Layout, m language.Memory, code uint64) (cookie uint64, ok bool) {
	if l.Code < 0 {
		return 0, false
	}
	b := blocksOf{layout: l, memory: m, code: code}
	var words []uint64
	for _, w := range l.Cookie {
		if !l.FromCode(w.Block) {
			return 0, false
		}
		v, ok := b.wordOf(w)
		if !ok {
			return 0, true
		}
		words = append(words, v)
	}
	return language.Fold(words), true
}

// blocksOf are the blocks of a layout that are reached from a code object, each read once.
type blocksOf struct {
	layout *language.Layout
	memory language.Memory
	code   uint64
	read   [language.MaxBlocks][]byte
}

// wordOf returns a word of a block, or false if it cannot be read.
func (b *blocksOf) wordOf(w language.Word) (v uint64, ok bool) {
	block := &b.layout.Blocks[w.Block]
	if b.read[w.Block] == nil {
		at := b.code
		if !b.layout.IsCode(block.At) {
			if at, ok = b.wordOf(block.At); !ok || at == 0 {
				return 0, false
			}
		}
		bytes := make([]byte, block.Bytes)
		if _, err := b.memory.ReadAt(bytes, int64(at+uint64(block.Offset))); err != nil {
			return 0, false
		}
		b.read[w.Block] = bytes
	}
	v = binary.LittleEndian.Uint64(b.read[w.Block][w.Offset:])
	if w.Mask != 0 {
		v &= w.Mask
	}
	return v, true
}
