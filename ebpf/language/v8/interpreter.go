package v8

import (
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
)

// interpreter finds and names the functions of one version of V8. It implements language.FrameReader.
type interpreter struct {
	name   string
	layout Layout
	spec   language.Spec
	lines  *lines
}

// Blocks of a frame: the words at the frame pointer, the JSFunction's pointer to its SharedFunctionInfo, and the
// SharedFunctionInfo.
const (
	frameBlock = iota
	functionBlock
	sharedBlock
)

// Offsets in the frame's block, which starts frameBytes below the frame pointer (V8, src/execution/frame-constants.h).
const (
	frameBytes  = 40
	offsetAt    = frameBytes - 40
	bytecodeAt  = frameBytes - 32
	functionAt  = frameBytes - 16
	contextAt   = frameBytes - 8
	pointerMask = ^uint64(tagMask)
)

// Words of a frame, in order.
const (
	contextWord = iota
	bytecodeWord
	offsetWord
	sharedWord
	dataWord
	frameWords
)

func newInterpreter(v *Version, builtins language.Range, known *lines) *interpreter {
	l := v.Layout
	shared := language.Word{Block: functionBlock, Mask: pointerMask}
	in := func(at int) language.Word { return language.Word{Block: sharedBlock, Offset: at} }
	literal := in(l.SharedLiteral &^ 7)
	literal.Mask = (1<<32 - 1) << (8 * (l.SharedLiteral & 7))
	frame := language.Layout{
		Blocks: []language.Block{
			frameBlock: {Offset: -frameBytes, Bytes: frameBytes},
			functionBlock: {
				At: language.Word{Offset: functionAt, Mask: pointerMask}, Offset: int64(l.FunctionShared), Bytes: 8,
			},
			sharedBlock: {At: shared, Bytes: max(l.SharedLiteral, l.SharedScript)&^7 + 8},
		},
		Words: []language.Word{
			contextWord: {Offset: contextAt}, bytecodeWord: {Offset: bytecodeAt}, offsetWord: {Offset: offsetAt},
			sharedWord: shared, dataWord: in(l.SharedData),
		},
		Code:   sharedWord,
		Cookie: []language.Word{in(0), in(l.SharedName), in(l.SharedScript), literal},
	}
	return &interpreter{
		name: fmt.Sprintf("[V8 %d.%d]", v.Major, v.Minor), layout: l, lines: known,
		spec: language.Spec{Slots: &language.Slots{Low: builtins.Low, High: builtins.High, NoFile: true, Frame: frame}},
	}
}

// Name implements language.FrameReader.
func (i *interpreter) Name() string { return i.name }

// Spec implements language.FrameReader.
func (i *interpreter) Spec() *language.Spec { return &i.spec }

// Frame implements language.FrameReader. A JavaScript frame has a context where all other frames have a number for
// their type. V8's own functions have a number in place of bytecode. An interpreted frame has its bytecode, which
// belongs to one function only.
func (i *interpreter) Frame(words []uint64) language.Frame {
	data := tagged(words[dataWord])
	if !tagged(words[contextWord]).object() || !data.object() || words[sharedWord] == 0 {
		return language.Frame{Hidden: true}
	}
	f := language.Frame{Code: words[sharedWord], IP: language.NoIP, Made: true}
	bytecode := tagged(words[bytecodeWord])
	offset, ok := tagged(words[offsetWord]).smi()
	if offset -= i.layout.BytecodeData - strong; ok && bytecode.object() && offset > -i.layout.BytecodeData {
		f.IP, f.Made = uint64(max(offset, 0)), false
		f.Proved = words[dataWord] == words[bytecodeWord]
	}
	return f
}

var errGone = errors.New("the process has gone")

// Function implements language.FrameReader.
func (i *interpreter) Function(memory language.Memory, c *language.CodeObject) (language.Function, error) {
	if memory == nil {
		return language.Function{}, errGone
	}
	m := newReader(&i.layout, memory, i.lines)
	f := m.function(tagged(c.Address | strong))
	if m.err != nil {
		return language.Function{}, m.err
	}
	if f.bytecode == 0 {
		return language.Function{}, fmt.Errorf("function without bytecode: %w", errImplausible)
	}
	out := language.Function{Name: f.name, Whole: true}
	if f.script != nil {
		out.File, out.StartLine, out.Table = f.script.file, f.script.lineOf(f.start), m.lineTable(f)
	}
	return out, nil
}

// lineTable returns the lines of bytecode, or nil if they are unknown: V8 may create them only on demand.
func (m *reader) lineTable(f *function) (table []byte) {
	positions := m.typed(f.bytecode, m.l.BytecodeData, m.l.TypeBytecode).wordAt(m.l.BytecodePositions)
	if m.err != nil || !positions.object() {
		return nil
	}
	at := entry
	m.l.positions(m.bytes(positions, maxTable), func(p position) bool {
		if p.at < at {
			return false
		}
		at = p.at
		table = language.AppendLine(table, uint64(max(at, 0)), f.script.lineOf(p.source))
		return len(table) < language.MaxTable
	})
	return table
}

// Unloads implements language.FrameReader: the garbage collector of V8 does not count the code objects that it frees.
func (*interpreter) Unloads(language.Memory, uint64) (counter uint64, err error) {
	return 0, language.ErrUnknown
}

// Compiler implements language.FrameReader.
func (i *interpreter) Compiler() language.Compiler { return i }
