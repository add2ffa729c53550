package kernel

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// ErrInterpreters reports that the kernel has no room for another interpreter.
var ErrInterpreters = fmt.Errorf("more than %d interpreters at a time", profilerLimitsMAX_INTERPRETERS-1)

// interpreters manages the interpreters that the BPF programs know. It is safe for concurrent use.
type interpreters struct {
	byNumber, programs *ebpf.Map

	mu      sync.Mutex
	ids     uint32
	used    [profilerLimitsMAX_INTERPRETERS]bool
	removed [profilerLimitsMAX_INTERPRETERS]time.Time
}

func newInterpreters(o *profilerObjects) *interpreters {
	return &interpreters{byNumber: o.Interpreters, programs: o.Programs}
}

// interpreterRest is how long the number of a removed interpreter is not reused: a BPF program may still take a sample
// with it.
const interpreterRest = time.Second

// AddInterpreter stores an interpreter for the BPF programs. number, valid until RemoveInterpreter, is for
// unwind.Process; samples carry id, which is never reused.
func (x *interpreters) AddInterpreter(s *language.Spec) (number uint16, id uint32, err error) {
	if err := s.Check(); err != nil {
		return 0, 0, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for n := 1; n < len(x.used); n++ {
		if x.used[n] || time.Since(x.removed[n]) < interpreterRest {
			continue
		}
		value := encodeInterpreter(s)
		value.Id = x.ids + 1
		if err := x.byNumber.Put(uint32(n), &value); err != nil {
			return 0, 0, fmt.Errorf("store interpreter: %w", err)
		}
		x.ids++
		x.used[n] = true
		return uint16(n), x.ids, nil
	}
	return 0, 0, ErrInterpreters
}

// RemoveInterpreter frees the number of an interpreter that no process uses.
func (x *interpreters) RemoveInterpreter(number uint16) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used[number], x.removed[number] = false, time.Now()
}

// SetProgram sets the interpreter of all processes that run a program file, from their first sample on. Number 0
// removes it.
func (x *interpreters) SetProgram(p unwind.Program, number uint16) error {
	key := programKey(p)
	if number == 0 {
		if err := x.programs.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget the interpreter of a program: %w", err)
		}
		return nil
	}
	value := profilerProgram{StartCode: p.StartCode, Interpreter: uint32(number)}
	if err := x.programs.Put(&key, &value); err != nil {
		return fmt.Errorf("store the interpreter of a program: %w", err)
	}
	return nil
}

func programKey(p unwind.Program) profilerProgramKey {
	const minorBits = 20 // MINORBITS of the kernel's dev_t
	return profilerProgramKey{Inode: p.Inode, Dev: p.Major<<minorBits | p.Minor}
}

const noWord = 255 // NO_WORD of bpf/abi/languages.h

func encodeInterpreter(s *language.Spec) (v profilerInterpreter) {
	c := s.Chain
	encodeFrozen(&v, s.Frozen)
	v.Next, v.Stop = noWord, noWord
	if s.Slots != nil {
		v.Slots, v.SlotsLow, v.SlotsHigh = 1, s.Slots.Low, s.Slots.High
		encodeLayout(&v, &s.Slots.Frame)
		return v
	}
	if c == nil {
		return v
	}
	v.StartCount, v.StepCount = uint8(len(c.Start)), uint8(len(c.Start)+len(c.Then))
	for i, step := range append(append([]language.Step{}, c.Start...), c.Then...) {
		v.Steps[i].Offset, v.Steps[i].Scale, v.Steps[i].Limit, v.Steps[i].Op =
			step.Offset, step.Scale, step.Limit, uint64(step.Op)
	}
	if c.Find != nil {
		v.Owner = uint8(c.Find.To)
		v.NodeWord, v.NodeAdd, v.NodeNext = c.Find.Word, c.Find.Add, c.Find.Next
	}
	if c.Next.Word >= 0 {
		v.Next = uint8(c.Next.Word)
	}
	v.NextMask, v.NextOffset = allIfZero(c.Next.Mask), c.Next.Offset
	if c.Stop != nil {
		v.Stop, v.StopMask, v.StopValue = uint64(c.Stop.Word), c.Stop.Mask, c.Stop.Value
	}
	encodeLayout(&v, &c.Frame)
	return v
}

func encodeFrozen(v *profilerInterpreter, f *language.Frozen) {
	if f == nil {
		return
	}
	to := &v.Frozen
	to.Descriptor, to.EntryPc, to.BadBits, to.ColorShift = f.Descriptor, f.EntryPC, f.BadBits, f.ColorShift
	to.Base, to.Shift, to.ReferenceBytes = f.Base, uint8(f.Shift), uint8(f.ReferenceBytes)
	to.Class, to.ClassMask, to.ClassAt = f.Class, f.ClassMask, uint16(f.ClassAt)
	to.OsThread, to.OsThreadOwn = uint16(f.OSThread), uint16(f.OSThreadOwn)
	to.Entry, to.LastSp, to.Carrier = uint16(f.Entry), uint16(f.LastSP), uint16(f.Carrier)
	to.EntryBytes, to.Continuation = uint16(f.EntryBytes), uint16(f.Continuation)
	to.Outer, to.Chunk = uint16(f.Outer), uint16(f.Chunk)
	to.ChunkParent, to.ChunkSize, to.ChunkSp = uint16(f.ChunkParent), uint16(f.ChunkSize), uint16(f.ChunkSP)
	to.ChunkBottom, to.ChunkStack, to.LocalsBelow = uint16(f.ChunkBottom), uint16(f.ChunkStack), uint16(f.LocalsBelow)
	if f.BottomFromEnd {
		to.BottomFromEnd = 1
	}
}

func encodeLayout(v *profilerInterpreter, l *language.Layout) {
	out := &v.Frame
	out.BlockCount, out.WordCount = uint8(len(l.Blocks)), uint8(len(l.Words))
	out.CookieCount, out.TextCount = uint8(len(l.Cookie)), uint8(len(l.Texts))
	for i, b := range l.Blocks {
		to := &out.Blocks[i]
		to.Offset, to.Mask, to.Bytes, to.At = b.Offset, allIfZero(b.At.Mask), uint32(b.Bytes), uint8(wordNumber(b.At))
	}
	encodeWords(out.Words[:], l.Words)
	encodeWords(out.Cookie[:], l.Cookie)
	for _, w := range l.Cookie {
		out.CookieBlocks |= 1 << w.Block
	}
	for i, t := range l.Texts {
		to := &out.Texts[i]
		to.Offset, to.Mask, to.Bytes, to.At = t.Offset, allIfZero(t.At.Mask), uint32(t.Bytes), uint32(wordNumber(t.At))
	}
	out.Code, out.CodeMask = noWord, allIfZero(l.CodeMask)
	if l.Code >= 0 {
		out.Code = uint8(l.Code)
	}
}

// encodeWords encodes the words of a layout. Unused entries have the block of the last word, and a mask of 0.
func encodeWords(out []profilerBlockWord, words []language.Word) {
	for i := range out {
		if i < len(words) {
			out[i].At, out[i].Mask = uint32(words[i].Offset), allIfZero(words[i].Mask)
		}
		if len(words) > 0 {
			out[i].Block = uint32(words[min(i, len(words)-1)].Block)
		}
	}
}

func wordNumber(w language.Word) uint64 {
	return uint64(w.Block)*uint64(profilerLimitsBLOCK_WORDS) + uint64(w.Offset)/8
}

func allIfZero(mask uint64) uint64 {
	if mask == 0 {
		return ^uint64(0)
	}
	return mask
}
