// Package chain walks the frames that an interpreter keeps for a thread, as bpf/language/chain.h does in the kernel,
// and merges them with the native frames.
package chain

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/language"
)

// MaxFrames is the maximum number of frames of a chain.
const MaxFrames = 1024

// maxNodes bounds the search in a list of threads.
const maxNodes = 1024

// Memory is the memory of a process.
type Memory interface {
	// Read fills b from addr, or returns false.
	Read(addr uint64, b []byte) bool
}

// Thread is the kernel's data about the thread.
type Thread struct {
	Pointer uint64
	ID      uint32
	Bias    uint64 // load bias of the interpreter's file
}

// Walk calls use with the words and the cookie of each frame of a thread's chain, leaf first; the words are valid until
// use returns. It returns how the chain ends.
func Walk(c *language.Chain, t Thread, m Memory, use func(words []uint64, cookie uint64)) language.ChainEnd {
	w := walker{chain: c, thread: t, memory: m}
	if end := w.begin(); end != language.ChainNone {
		return end
	}
	for range MaxFrames {
		words, end := w.frame()
		if end != language.ChainNone {
			return w.ofState(end)
		}
		use(words, w.blocks.cookie(&c.Frame))
		if end := w.nextFrame(words); end != language.ChainNone {
			return w.ofState(end)
		}
	}
	return language.ChainTooLong
}

// ReadFrame reads the words of one frame into words, and returns the cookie of its code object, or 0 if it cannot be
// read.
func ReadFrame(l *language.Layout, at uint64, m Memory, words []uint64) (cookie uint64) {
	var b blocks
	b.readAll(l, at, m)
	b.words(l, words)
	return b.cookie(l)
}

// walker is the state of a walk, like struct chain of bpf/language/chain.h.
type walker struct {
	chain  *language.Chain
	thread Thread
	memory Memory
	at     uint64
	blocks blocks
	words  [language.MaxWords]uint64
	first  bool // Running has not led to a state of the thread
}

// ofState returns how the chain of the state that the path has led to ends.
func (w *walker) ofState(end language.ChainEnd) language.ChainEnd {
	if w.first && end == language.ChainWhole {
		return language.ChainFirstState
	}
	return end
}

func (w *walker) u64(addr uint64) (v uint64, ok bool) {
	var b [8]byte
	ok = w.memory.Read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), ok
}

func (w *walker) u32(addr uint64) (v uint32, ok bool) {
	var b [4]byte
	ok = w.memory.Read(addr, b[:])
	return binary.LittleEndian.Uint32(b[:]), ok
}

// begin moves to the first frame.
func (w *walker) begin() language.ChainEnd {
	if end := w.followPath(w.chain.Start); end != language.ChainNone {
		return end
	}
	if w.chain.Find != nil {
		if end := w.findFrame(w.chain.Find); end != language.ChainNone {
			return end
		}
	}
	return w.followPath(w.chain.Then)
}

func (w *walker) followPath(steps []language.Step) language.ChainEnd {
	for i := 0; i < len(steps); i++ {
		if end := w.followStep(&steps[i]); end != language.ChainNone {
			return end
		}
		if steps[i].Op == language.Running && !w.first {
			i += int(steps[i].Limit)
		}
	}
	return language.ChainNone
}

func (w *walker) followStep(s *language.Step) language.ChainEnd {
	off := uint64(s.Offset)
	switch s.Op {
	case language.Global:
		w.at = w.thread.Bias + off
	case language.ThreadPointer:
		w.at = w.thread.Pointer + off
	case language.Absolute:
		w.at = off
	case language.Add:
		w.at += off
	case language.Index:
		i, ok := w.u32(w.thread.Bias + off)
		if !ok || i >= s.Limit {
			return language.ChainNoStart
		}
		w.at += uint64(i) * uint64(s.Scale)
	case language.Running:
		at, ok := w.u64(w.thread.Bias + off)
		if !ok {
			return language.ChainNoStart
		}
		owner, owned := w.u64(at + uint64(s.Scale))
		w.at, w.first = at, at == 0 || !owned || owner != w.thread.Pointer
	case language.Load:
		at, ok := w.u64(w.at + off)
		switch {
		case !ok:
			return language.ChainNoStart
		case at == 0:
			return language.ChainNoThread
		}
		w.at = at
	default:
		return language.ChainNoStart
	}
	return language.ChainNone
}

func (w *walker) findFrame(f *language.Find) language.ChainEnd {
	for range maxNodes {
		var owned, ok bool
		if f.To == language.ByTID {
			var id uint32
			id, ok = w.u32(w.at + uint64(f.Word))
			owned = id == w.thread.ID
		} else {
			var pointer uint64
			pointer, ok = w.u64(w.at + uint64(f.Word))
			owned = pointer == w.thread.Pointer+uint64(f.Add)
		}
		if !ok {
			return language.ChainNoStart
		}
		if owned {
			return language.ChainNone
		}
		next, ok := w.u64(w.at + uint64(f.Next))
		switch {
		case !ok:
			return language.ChainNoStart
		case next == 0:
			return language.ChainThreadNotFound
		}
		w.at = next
	}
	return language.ChainThreadNotFound
}

// frame reads the frame at w.at.
func (w *walker) frame() ([]uint64, language.ChainEnd) {
	l := &w.chain.Frame
	w.blocks.readAll(l, w.at, w.memory)
	if !w.blocks.isRead(0) {
		return nil, language.ChainUnreadable
	}
	words := w.words[:len(l.Words)]
	w.blocks.words(l, words)
	if stop := w.chain.Stop; stop != nil && words[stop.Word]&stop.Mask == stop.Value {
		return nil, language.ChainWhole
	}
	return words, language.ChainNone
}

// nextFrame moves to the caller of the frame with these words.
func (w *walker) nextFrame(words []uint64) language.ChainEnd {
	next := w.chain.Next
	if next.Word < 0 {
		w.at += uint64(next.Offset)
		return language.ChainNone
	}
	at := words[next.Word] & allIfZero(next.Mask)
	if at == 0 {
		return language.ChainWhole
	}
	w.at = at + uint64(next.Offset)
	return language.ChainNone
}

// blocks are the blocks of a frame, like struct blocks of bpf/language/layout.h.
type blocks struct {
	read  uint8
	bytes [language.MaxBlocks][language.MaxBlockBytes]byte
}

func (b *blocks) isRead(i int) bool { return b.read>>i&1 != 0 }

// readAll reads the blocks of a frame.
func (b *blocks) readAll(l *language.Layout, frame uint64, m Memory) {
	b.read = 0
	for i := range l.Blocks {
		block := &l.Blocks[i]
		at := frame
		if i > 0 {
			at = b.wordOf(block.At)
		}
		if at != 0 && m.Read(at+uint64(block.Offset), b.bytes[i][:block.Bytes]) {
			b.read |= 1 << i
		}
	}
}

// wordOf returns a word, or 0 if its block could not be read.
func (b *blocks) wordOf(w language.Word) uint64 {
	if !b.isRead(w.Block) {
		return 0
	}
	return binary.LittleEndian.Uint64(b.bytes[w.Block][w.Offset:]) & allIfZero(w.Mask)
}

// words reads the words that are recorded with a sample.
func (b *blocks) words(l *language.Layout, words []uint64) {
	for i, w := range l.Words {
		words[i] = b.wordOf(w)
	}
}

// cookie hashes the words of the cookie. It returns 0 if one could not be read.
func (b *blocks) cookie(l *language.Layout) uint64 {
	var words [language.MaxCookieWords]uint64
	for i, w := range l.Cookie {
		if !b.isRead(w.Block) {
			return 0
		}
		words[i] = b.wordOf(w)
	}
	return language.Fold(words[:len(l.Cookie)])
}

func allIfZero(mask uint64) uint64 {
	if mask == 0 {
		return ^uint64(0)
	}
	return mask
}
