package jvm

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// interpretedFrame returns the words of a frame and its cookie, read as the BPF program does.
func interpretedFrame(m language.Memory, l *language.Layout, rbp uint64) (words []uint64, cookie uint64) {
	blocks := make([][]byte, len(l.Blocks))
	word := func(w language.Word) (v uint64) {
		if b := blocks[w.Block]; b != nil {
			v = binary.LittleEndian.Uint64(b[w.Offset:])
		}
		if w.Mask != 0 {
			v &= w.Mask
		}
		return v
	}
	for i, block := range l.Blocks {
		at := rbp
		if i > 0 {
			at = word(block.At)
		}
		b := make([]byte, block.Bytes)
		if _, err := m.ReadAt(b, int64(at+uint64(block.Offset))); at != 0 && err == nil {
			blocks[i] = b
		}
	}
	for _, w := range l.Words {
		words = append(words, word(w))
	}
	var of []uint64
	for _, w := range l.Cookie {
		if blocks[w.Block] == nil {
			return words, 0
		}
		of = append(of, word(w))
	}
	return words, language.Fold(of)
}

// frame makes an interpreter frame at an index of a method's bytecodes, and returns its rbp.
func (f *fakeVM) frame(method, bci uint64) (rbp uint64) {
	u64 := func(at uint64) uint64 { return binary.LittleEndian.Uint64(f.at(at)) }
	rbp = f.place(make([]byte, 64)...) + 64
	constMethod := u64(method + 8)
	pool := u64(constMethod + 8)
	cache := f.place(make([]byte, 8)...)
	f.put64(pool, cache)
	f.put64(rbp-24, method)
	f.put64(rbp-48, cache)
	f.put64(rbp-64, constMethod+32+bci)
	return rbp
}

// TestInterpretedFrame reads frames of the interpreter, and names their methods.
func TestInterpretedFrame(t *testing.T) {
	f := newFakeVM(t)
	i := newInterpreter(f.layout, language.Range{Low: 0x1234, High: 0x21234})
	if err := i.Spec().Check(); err != nil || i.spec.Slots.Low != 0 || i.spec.Slots.High != 0x30000 {
		t.Fatalf("%+v, %v", i.spec.Slots, err)
	}
	layout := i.Spec().Layout()
	method := f.method("a/B", "run")
	rbp := f.frame(method, 6)
	words, cookie := interpretedFrame(f, layout, rbp)
	if got, want := i.Frame(words), (language.Frame{Code: method, IP: 6}); got != want || cookie == 0 {
		t.Errorf("%+v, cookie %#x; want %+v", got, cookie, want)
	}
	fn, err := i.Function(f, &language.CodeObject{Address: method})
	if err != nil || fn.Name != "a.B.run" || fn.File != "File.java" || fn.StartLine != 7 || !fn.Whole ||
		len(fn.Table) == 0 {
		t.Errorf("%+v, %v", fn, err)
	}
	for ip, want := range map[uint64]int{0: 7, 4: 7, 5: 9, 8: 4, 19: 4, language.NoIP: 0} {
		if line := i.Lines(&fn, ip, false)[0].Line; line != want {
			t.Errorf("line %d at %d, want %d", line, ip, want)
		}
	}
	f.put64(rbp-64, 0) // as for a native method
	if words, _ := interpretedFrame(f, layout, rbp); i.Frame(words).IP != language.NoIP {
		t.Errorf("without a place: %+v", i.Frame(words))
	}
	f.put64(rbp-48, rbp+8) // not a frame, or not yet
	if words, _ := interpretedFrame(f, layout, rbp); !i.Frame(words).Hidden {
		t.Errorf("with another cache: %+v", i.Frame(words))
	}
	if _, err := i.Function(nil, &language.CodeObject{Address: method}); err == nil {
		t.Error("a function of a process that has gone")
	}
	if _, err := i.Function(f, &language.CodeObject{Address: rbp}); err == nil {
		t.Error("a function where there is none")
	}
}

// TestInterpretedCookie: another method at the same address has another cookie; the use of a method does not change its
// cookie.
func TestInterpretedCookie(t *testing.T) {
	f := newFakeVM(t)
	layout := newInterpreter(f.layout, language.Range{}).Spec().Layout()
	u64 := func(at uint64) uint64 { return binary.LittleEndian.Uint64(f.at(at)) }
	method := f.method("a/B", "run")
	rbp := f.frame(method, 0)
	_, before := interpretedFrame(f, layout, rbp)
	constMethod := u64(method + 8)
	pool := u64(constMethod + 8)
	symbol := u64(u64(pool+8) + 16)
	for name, change := range map[string]struct {
		at   uint64
		same bool
	}{
		"uses of the class's name":   {symbol, true},
		"where it is":                {rbp - 64, true},
		"flags":                      {constMethod + 18, true},
		"length of the class's name": {symbol + 4, false},
		"number of the class's name": {symbol + 2, false},
		"the class's name":           {symbol + 6, false},
		"which method":               {constMethod + 16, false},
		"bytecodes":                  {constMethod + 20, false},
	} {
		f.at(change.at)[0] ^= 1
		if _, after := interpretedFrame(f, layout, rbp); (after == before) != change.same || after == 0 {
			t.Errorf("%s: the cookie is %#x, was %#x", name, after, before)
		}
		f.at(change.at)[0] ^= 1
	}
}

// TestFramed: an interpreter entry has a frame from the last push of the fixed part until leave.
func TestFramed(t *testing.T) {
	f := newFakeVM(t)
	// pop rax; push rax; push rbp; mov rbp,rsp; push r13; push 0; push rbx; push rdx; push rdx; push rdx; push r14;
	// push r13; push 0; nop; leave; ret
	code := assemble(t, "58\n50\n55\n48 89 e5\n41 55\n6a 00\n53\n52\n52\n52\n41 56\n41 55\n6a 00\n90\nc9\nc3")
	rows := piece{kind: interpreterEntry, code: code, complete: -1, fixed: f.layout.frames.fixed}.rules()
	begins, ends := len(code)-5, len(code)-1 // after the last push but one, after leave
	for at := range code {
		if got, want := framed(rows, at), at >= begins && at < ends; got != want {
			t.Errorf("a frame at %d: %t", at, got)
		}
	}
	if in, ok := x86.Decode(code[begins:]); !ok || in.Opcode != 0x6a {
		t.Errorf("%+v", in)
	}
	rows = piece{kind: interpreterCode, code: assemble(t, "90\nc9\nc3"), complete: -1}.rules()
	if !framed(rows, 0) || !framed(rows, 1) || framed(rows, 2) || framed(nil, 0) {
		t.Errorf("%+v", rows)
	}
}

// TestInterpretedUnknown: a VM that does not describe its interpreter has no Interpreter.
func TestInterpretedUnknown(t *testing.T) {
	f := newFakeVM(t)
	l := &library{remembered: &Remembered{}}
	l.layout.Store(f.layout)
	if _, err := l.FindFrames(language.Process{Bias: fakeBias, Memory: f}); !errors.Is(err, language.ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// FuzzInterpreted names methods in memory that changes in some places.
func FuzzInterpreted(f *testing.F) {
	f.Add([]byte{3, 4, 5, 6, 1, 0x80, 7})
	f.Fuzz(func(t *testing.T, changes []byte) {
		vm := newFakeVM(t)
		i := newInterpreter(vm.layout, language.Range{})
		begin := vm.free
		method := vm.method("a/B", "run")
		rbp := vm.frame(method, 6)
		for ; len(changes) >= 3; changes = changes[3:] {
			at := (uint64(changes[0])<<8 + uint64(changes[1])) % (vm.free - begin)
			vm.at(begin + at)[0] = changes[2]
		}
		words, cookie := interpretedFrame(vm, i.Spec().Layout(), rbp)
		frame := i.Frame(words)
		fn, err := i.Function(vm, &language.CodeObject{Address: frame.Code, Cookie: cookie})
		if line := i.Lines(&fn, frame.IP, false)[0].Line; line < 0 || line > maxLine || err != nil && fn.Name != "" ||
			len(fn.Name)+len(fn.File) > 16*maxSymbol || len(fn.Table) > language.MaxTable || fn.StartLine < 0 {
			t.Fatalf("line %d of %+v, %v", line, fn, err)
		}
	})
}
