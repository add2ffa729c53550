package cpython

import (
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
)

// interpreter implements language.FrameReader for one version of CPython.
type interpreter struct {
	language.OnlyInterpreted

	name   string
	layout *layout
	spec   language.Spec
}

// The words of a frame, see Spec.
const (
	wordCode = iota
	wordInstruction
	wordPrevious
	wordMark // 3.11 and later
)

// stackOwned is the first value of owner for frames of the evaluation loop itself, which belong to no function
// (FRAME_OWNED_BY_CSTACK, from 3.14 on FRAME_OWNED_BY_INTERPRETER).
const stackOwned = 3

// tags are the bits of an object pointer that are not part of the address (_PyStackRef, 3.14 and later).
const tags = 7

func newInterpreter(l *library, thread []language.Step) *interpreter {
	x := &interpreter{name: fmt.Sprintf("[python 3.%d]", l.minor), layout: l.layout}
	start := slices.Clone(thread)
	for _, field := range l.layout.listFields() {
		start = append(start, language.Step{Op: language.Load, Offset: l.layout.offsetOf(field)})
	}
	x.spec = language.Spec{
		Chain: &language.Chain{
			Start: start,
			Frame: x.frameLayout(),
			Next:  language.Next{Word: wordPrevious},
		},
		Everywhere: !l.slot.inProcess(),
	}
	return x
}

// frameLayout returns the layout of a frame: one block for the frame, one for its code object, and, for a new code
// object, the starts of its name and its file name.
func (x *interpreter) frameLayout() language.Layout {
	fields := []string{"frame.code", "frame.instruction", "frame.previous"}
	if x.layout.hasField("frame.mark") {
		fields = append(fields, "frame.mark")
	}
	frame, words := x.block(fields)
	code, cookie := x.block(codeFields())
	code.At = language.Word{Block: 0, Offset: words[wordCode].Offset, Mask: ^uint64(tags)}
	for i := range cookie {
		cookie[i].Block = 1
	}
	return language.Layout{
		Blocks:   []language.Block{frame, code},
		Words:    words,
		Code:     wordCode,
		CodeMask: ^uint64(tags),
		Cookie:   cookie,
		Texts: []language.Text{
			{At: cookie[cookieName], Bytes: int(x.layout.offsetOf("text.ascii")) + carriedText},
			{At: cookie[cookieFile], Bytes: int(x.layout.offsetOf("text.ascii")) + carriedText},
		},
	}
}

// carriedText is the number of bytes of a name that a sample carries.
const carriedText = 136

// The words of the cookie.
const (
	cookieFirstLine = iota
	cookieFile
	cookieName
	cookieLines
)

// codeFields returns the fields that identify a code object: a different code object at the same address has another
// name, file, first line or line table.
func codeFields() []string {
	return []string{"code.firstline", "code.filename", "code.name", "code.lines"}
}

// block returns the smallest block that contains all fields, and a word for each field.
func (x *interpreter) block(fields []string) (b language.Block, words []language.Word) {
	const word = 8
	low, high := int64(maxOffset), int64(0)
	for _, field := range fields {
		at := x.layout.offsetOf(field) &^ (word - 1)
		low, high = min(low, at), max(high, at+word)
	}
	for _, field := range fields {
		words = append(words, language.Word{Offset: int(x.layout.offsetOf(field)&^(word-1) - low)})
	}
	return language.Block{Offset: low, Bytes: int(high - low)}, words
}

// Name implements language.FrameReader.
func (x *interpreter) Name() string { return x.name }

// Spec implements language.FrameReader.
func (x *interpreter) Spec() *language.Spec { return &x.spec }

// Frame implements language.FrameReader.
func (x *interpreter) Frame(words []uint64) language.Frame {
	f := language.Frame{Code: words[wordCode] &^ tags}
	if x.layout.minor <= 10 {
		f.Last = true
		f.IP = x.lastInstruction(int32(words[wordInstruction] >> x.shift("frame.instruction")))
		return f
	}
	mark := byte(words[wordMark] >> x.shift("frame.mark"))
	switch {
	case x.layout.minor == 11:
		f.Last = mark != 0
	case mark >= stackOwned:
		return language.Frame{Last: true, Hidden: true}
	}
	f.IP = notStarted
	if first := f.Code + uint64(x.layout.offsetOf("code.instructions")); words[wordInstruction] >= first {
		f.IP = words[wordInstruction] - first
	}
	return f
}

// lastInstruction returns the offset of instruction f_lasti, which is -1 before the first instruction. 3.10 counts
// instructions, not bytes.
func (x *interpreter) lastInstruction(lasti int32) uint64 {
	switch {
	case lasti < 0:
		return notStarted
	case x.layout.minor == 10:
		return 2 * uint64(lasti)
	}
	return uint64(lasti)
}

// shift returns the bit offset of a field in its 64-bit word.
func (x *interpreter) shift(field string) int { return 8 * int(x.layout.offsetOf(field)&7) }
