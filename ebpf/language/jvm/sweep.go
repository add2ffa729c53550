package jvm

import (
	"bytes"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// kind is the way in which a piece of code uses its stack.
type kind uint8

const (
	compiled         kind = iota // a method: frames have a known size
	stub                         // assembled by hand
	adapter                      // between compiled code and the interpreter
	interpreterCode              // runs in an interpreted frame
	interpreterEntry             // sets up an interpreted frame
	exception                    // uses rdx, the address that an exception came from, as return address
)

// piece is code that was generated as a unit.
type piece struct {
	kind     kind
	code     []byte
	size     int64 // of a compiled frame, from sp up to the CFA; 0 if there is none
	complete int   // offset at which the compiled frame is complete; -1 if never
	fixed    int64 // for interpreterEntry: bytes below rbp that every interpreted frame has
}

// sweep walks through code from its first instruction to the last and tracks its changes to the stack. HotSpot emits
// instructions without gaps; errors from data among them end at the next return.
type sweep struct {
	piece
	known   map[int]target // frames at the targets of jumps
	guessed map[int]bool   // places where the frame was not known
	again   bool           // the frame at a guessed place is now known from a jump back to it
	rules   []rowAt
}

// target is the known frame at the target of a jump.
type target struct {
	frame
	sure bool // false if it follows from a guess
}

// rowAt is the rule from an offset on.
type rowAt struct {
	at     int
	rule   unwind.WideRule
	framed bool // an interpreted frame with its method is there
}

// rules returns the rules of a piece of code, from offset 0 on.
func (p piece) rules() []rowAt {
	s := sweep{piece: p, known: map[int]target{}, guessed: map[int]bool{}}
	s.runPasses()
	for turn := 0; s.again && turn < maxTurns; turn++ {
		s.again, s.rules = false, s.rules[:0]
		s.runPasses()
	}
	return s.rules
}

// enter is the first instructions of stubs with a frame pointer: push rbp; mov rbp,rsp. Data may precede them.
var enter = []byte{0x55, 0x48, 0x8b, 0xec}

// maxTurns bounds the extra passes over the code.
const maxTurns = 3

// first returns the frame at the first instruction.
func (s *sweep) first() frame {
	switch s.kind {
	case interpreterCode:
		return frame{form: interpreted, sender: noRegister}
	case exception:
		return frame{loaded: true, ra: rdx}
	}
	return entryFrame
}

// unreached returns the frame at an instruction that neither a known jump nor the instruction before it reaches.
func (s *sweep) unreached(at int) frame {
	switch {
	case s.kind == interpreterCode || s.kind == interpreterEntry:
		return frame{form: interpreted, sender: noRegister, depth: s.fixed}
	case s.kind == compiled && s.isComplete(at):
		return s.whole()
	}
	return entryFrame
}

func (s *sweep) isComplete(at int) bool { return s.size > 0 && s.complete >= 0 && at >= s.complete }

// whole returns the frame of a compiled method.
func (s *sweep) whole() frame {
	f := frame{depth: s.size}
	if s.size >= 2*wordSize {
		f.saved = 2 * wordSize
	}
	return f
}

func (s *sweep) runPasses() {
	f := s.first()
	reached, sure := true, true
	for at := 0; at < len(s.code); {
		to, known := s.known[at]
		switch {
		case known && !(reached && sure):
			f, reached, sure = to.frame, true, to.sure
		case !reached:
			f, reached, sure = s.unreached(at), true, false
			s.guessed[at] = true
		}
		in, ok := x86.Decode(s.code[at:])
		if !ok {
			s.addFrame(at, f)
			at++
			reached = false
			continue
		}
		s.correct(&f, at, &in)
		s.addFrame(at, f)
		next := at + in.Length
		if s.kind == stub {
			if begins := bytes.Index(s.code[at:min(next+len(enter)-1, len(s.code))], enter); begins > 0 {
				at, reached = at+begins, false // the bytes were data, not an instruction
				continue
			}
		}
		switch e := x86.StackEffect(&in); e.Kind {
		case x86.Branch:
			s.jumpTo(next+int(e.N), f, sure)
		case x86.Jump:
			s.jumpTo(next+int(e.N), f, sure)
			reached = false
		case x86.JumpBySlot, x86.JumpAnywhere, x86.Return, x86.Trap, x86.Stop:
			reached = false
		default:
			f = s.stepFrame(f, e)
		}
		at = next
	}
}

// correct replaces f at places where the frame is known.
func (s *sweep) correct(f *frame, at int, in *x86.Instruction) {
	switch {
	case s.kind == compiled && at == s.complete && s.size > 0 && f.form == bySP:
		*f = s.whole()
	case s.kind == compiled && in.Opcode == 0xbb && in.Wide && in.Table == 0 && f.depth == s.size &&
		s.callsStub(at+in.Length):
		*f = entryFrame
	}
}

// callsStub reports whether a jump out of the piece is at an offset: with mov rbx before it, the jump is a stub that
// compiled code calls instead of a method that is not compiled.
func (s *sweep) callsStub(at int) bool { return at+5 <= len(s.code) && s.code[at] == 0xe9 }

// stepFrame returns f after an instruction that continues at the next one.
func (s *sweep) stepFrame(f frame, e x86.Effect) frame {
	if s.kind == interpreterEntry {
		return s.enter(f, e)
	}
	if s.kind == adapter && f.form == bySender && f.loaded && e.Kind == x86.Push && e.Reg == f.ra {
		return entryFrame // the adapter to compiled code has pushed the return address again
	}
	next := f.after(e, s.kind)
	whole := s.kind == compiled && f.form == bySP && f.depth == s.size && f.depth > 2*wordSize
	if whole && next.form == bySP && next.depth < f.depth && e.Kind != x86.Add {
		return f // a compiled frame never pops its own part: these bytes are remains that a jump of C1 skips
	}
	return next
}

// enter returns f after an instruction of code that sets up an interpreted frame. Such code pops the return address,
// makes room for variables, pushes the return address again, then rbp, and then the caller's stack pointer, which is in
// r13.
func (s *sweep) enter(f frame, e x86.Effect) frame {
	if f == entryFrame {
		f = frame{form: bySender, sender: r13, depth: wordSize}
	}
	if f.form == bySender && f.saved > 0 && e.Kind == x86.Push && e.Reg == r13 {
		return frame{form: interpreted, sender: noRegister, depth: wordSize}
	}
	next := f.after(e, s.kind)
	if f.form == interpreted && next.form == interpreted && f.depth < s.fixed {
		next.depth = f.depth + pushed(e)
	}
	return next
}

// pushed returns the number of bytes by which an instruction grows the stack.
func pushed(e x86.Effect) int64 {
	switch {
	case e.Kind == x86.Push || e.Kind == x86.Pop || e.Kind == x86.Add,
		e.Kind == x86.Address && e.Reg == rsp && e.Base == rsp:
		return -e.N
	}
	return 0
}

// framed reports whether f is an interpreted frame with its method and all other fixed parts.
func (s *sweep) framed(f frame) bool {
	return f.form == interpreted && (s.kind != interpreterEntry || f.depth >= s.fixed)
}

// jumpTo notes the frame at the target of a jump. A sure frame replaces a guess.
func (s *sweep) jumpTo(to int, f frame, sure bool) {
	if to < 0 || to >= len(s.code) || f.form == unknownForm {
		return
	}
	if old, ok := s.known[to]; ok && (old.sure || !sure) {
		return
	}
	s.known[to] = target{f, sure}
	s.again = s.again || sure && s.guessed[to]
}

func (s *sweep) addFrame(at int, f frame) {
	row := rowAt{at, f.wideRule(), s.framed(f)}
	if n := len(s.rules); n > 0 && s.rules[n-1].rule == row.rule && s.rules[n-1].framed == row.framed {
		return
	}
	s.rules = append(s.rules, row)
}
