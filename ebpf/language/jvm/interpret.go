package jvm

import (
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
)

// interpretedLayout is the layout data needed to name the method of an interpreted frame.
type interpretedLayout struct {
	known bool   // whether the VM describes it
	fixed int64  // bytes below rbp that every interpreted frame has, down to the bytecode pointer
	cache int64  // offset in these bytes of the frame's pointer to the ConstantPoolCache
	pool  uint64 // offset in a ConstantPool of its pointer to the ConstantPoolCache
}

// methodBelow is the offset of the Method in a frame, and the other constants are the offsets of the fields in their
// names, in bytes below rbp (HotSpot, src/hotspot/cpu/x86/frame_x86.hpp). JDK 9 added the class's mirror next to the
// Method. The VM does not describe these offsets; they are confirmed if the frame's cache is the cache of its method's
// pool.
const (
	methodBelow = 24

	cacheBelow8, bytecodeBelow8 = 40, 56 // JDK 8
	cacheBelow, bytecodeBelow   = 48, 64 // since JDK 9
)

// interpreted looks up the layout of interpreted frames.
func (r *resolver) interpreted() (i interpretedLayout) {
	i.fixed, i.cache = bytecodeBelow, bytecodeBelow-cacheBelow
	if r.l.blobs.heaps == 0 {
		i.fixed, i.cache = bytecodeBelow8, bytecodeBelow8-cacheBelow8
	}
	i.pool = r.offset("ConstantPool::_cache")
	n := &r.l.names
	i.known = r.err == nil && r.l.blobs.interpreter != 0 && n.constMethodBytes != 0
	for _, at := range []uint64{n.constMethod, n.constants, i.pool, n.holder, n.className} {
		i.known = i.known && at%wordSize == 0
	}
	for _, size := range []uint64{i.pool, n.holder, n.constMethodBytes} {
		i.known = i.known && size < language.MaxBlockBytes
	}
	return i
}

// Blocks of an interpreted frame: the bytes below rbp, the Method, its ConstMethod, the ConstantPool, the class, and
// the Symbol with the class's name.
const (
	frameBlock = iota
	methodBlock
	constMethodBlock
	poolBlock
	classBlock
	symbolBlock
)

// Words of a frame, in order.
const (
	methodWord = iota
	bytecodeWord
	constMethodWord
	codeSizeWord
	cacheWord
	poolCacheWord
	interpretedWords
)

// interpreter names the methods that a build of HotSpot interprets. It implements language.FrameReader.
type interpreter struct {
	layout *Layout
	spec   language.Spec
}

// newInterpreter returns the interpreter with code at the given ELF virtual addresses of the executable that stands for
// the code cache. The addresses are rounded, so that processes share a few Specs.
func newInterpreter(l *Layout, code language.Range) *interpreter {
	const round = 1 << 16
	return &interpreter{layout: l, spec: language.Spec{Slots: &language.Slots{
		Low: code.Low &^ (round - 1), High: (code.High + round - 1) &^ (round - 1), Frame: l.interpretedFrame(),
	}}}
}

// interpretedFrame returns the layout of an interpreted frame. The cookie of its method consists of values that differ
// for another method at the same address: the class and its name, and the method's index in the class.
func (l *Layout) interpretedFrame() language.Layout {
	n, f := &l.names, &l.frames
	method := language.Word{Offset: int(f.fixed) - methodBelow}
	constMethod := language.Word{Block: methodBlock}
	constants := language.Word{Block: constMethodBlock, Offset: int(n.constants)}
	poolStart := min(f.pool, n.holder)
	holder := language.Word{Block: poolBlock, Offset: int(n.holder - poolStart)}
	symbol := language.Word{Block: classBlock}
	// A Symbol starts with its length, a random number, and its reference count. The mask omits the count, which
	// changes.
	head := language.Word{Block: symbolBlock, Mask: ^uint64(0xffff)}
	if n.length == 0 {
		head.Mask = ^uint64(0xffff << 16)
	}
	constMethodBytes := int(n.constMethodBytes+wordSize-1) &^ (wordSize - 1)
	return language.Layout{
		Blocks: []language.Block{
			frameBlock:       {Offset: -f.fixed, Bytes: int(f.fixed)},
			methodBlock:      {At: method, Offset: int64(n.constMethod), Bytes: wordSize},
			constMethodBlock: {At: constMethod, Bytes: constMethodBytes},
			poolBlock:        {At: constants, Offset: int64(poolStart), Bytes: int(max(f.pool, n.holder)-poolStart) + wordSize},
			classBlock:       {At: holder, Offset: int64(n.className), Bytes: wordSize},
			symbolBlock:      {At: symbol, Bytes: wordSize},
		},
		Words: []language.Word{
			methodWord: method, bytecodeWord: {}, constMethodWord: constMethod, codeSizeWord: l.constMethodWord(n.codeSize),
			cacheWord:     {Offset: int(f.cache)},
			poolCacheWord: {Block: poolBlock, Offset: int(f.pool - poolStart)},
		},
		Code: methodWord,
		Cookie: []language.Word{
			constMethod, constants, l.constMethodWord(member{n.nameIndex, 2}), l.constMethodWord(n.codeSize), holder, symbol,
			head,
		},
	}
}

// constMethodWord returns the word of a ConstMethod that contains a number, masked to that number.
func (l *Layout) constMethodWord(m member) language.Word {
	w := language.Word{Block: constMethodBlock, Offset: int(m.at &^ (wordSize - 1))}
	w.Mask = (1<<(8*m.size) - 1) << (8 * (m.at % wordSize))
	return w
}

// Name implements language.FrameReader.
func (i *interpreter) Name() string {
	if i.layout.version == 0 {
		return "[java]"
	}
	return fmt.Sprintf("[java %d]", i.layout.version)
}

// Spec implements language.FrameReader.
func (i *interpreter) Spec() *language.Spec { return &i.spec }

// Frame implements language.FrameReader. Words are a frame if they have the cache of its method's pool. The position in
// the bytecodes may be missing: native methods have none.
func (i *interpreter) Frame(words []uint64) language.Frame {
	if words[methodWord] == 0 || words[cacheWord] == 0 || words[cacheWord] != words[poolCacheWord] {
		return language.Frame{Hidden: true}
	}
	f := language.Frame{Code: words[methodWord], IP: language.NoIP}
	size := words[codeSizeWord] >> (8 * (i.layout.names.codeSize.at % wordSize))
	if at := words[bytecodeWord] - words[constMethodWord] - i.layout.names.constMethodBytes; at < size {
		f.IP = at
	}
	return f
}

var errGone = errors.New("the process has gone")

// Function implements language.FrameReader.
func (i *interpreter) Function(process language.Memory, c *language.CodeObject) (language.Function, error) {
	if process == nil {
		return language.Function{}, errGone
	}
	vm := VM{layout: i.layout}
	m := memory{r: &cached{r: process, chunks: map[int64][]byte{}}}
	name := vm.methodName(&m, c.Address)
	table := vm.lineTable(&m, c.Address)
	if m.err == nil && name.function == "" {
		m.err = errImplausible
	}
	if m.err != nil {
		return language.Function{}, m.err
	}
	f := language.Function{Name: name.function, File: name.file, Whole: true}
	f.StartLine, _ = i.layout.lineAt(table, nowhere)
	f.Table = i.layout.sortLines(table)
	return f, nil
}

// Lines implements language.FrameReader.
func (*interpreter) Lines(f *language.Function, ip uint64, _ bool) []language.Line {
	return f.LineIn(ip)
}

// Compiler implements language.FrameReader: compiled methods are the Code of a process.
func (*interpreter) Compiler() language.Compiler { return nil }

// Traits implements language.Library.
func (*library) Traits() language.Traits { return language.Traits{Frames: language.NamedFrames} }

// Evaluation implements language.Library: the file has no ranges, see codeCache.Evaluates.
func (*library) Evaluation() (runs, entering []language.Range) { return nil, nil }

// FindFrames implements language.Library.
func (l *library) FindFrames(p language.Process) (language.FrameReader, error) {
	vm, err := l.openVM(p)
	if err != nil {
		return nil, fmt.Errorf("interpreter of a Java VM: %w", err)
	}
	if !vm.layout.frames.known {
		return nil, fmt.Errorf("frames of a Java VM's interpreter: %w", language.ErrUnknown)
	}
	start, end := vm.queue()
	if start < vm.low || end <= start || end > vm.high {
		return nil, ErrNotReady
	}
	base := language.Base(vm.low)
	made := newInterpreter(vm.layout, language.Range{Low: start - base, High: end - base})
	if made.spec.Frozen, err = vm.continuations(); errors.Is(err, language.ErrNotReady) {
		return nil, err
	}
	return made, nil
}
