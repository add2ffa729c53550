// Package toy knows the runtime of Toy, which makes one piece of code that keeps frame
// pointers, and says in its own memory where that is and what it is called.
package toy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Language detects the runtime of Toy. It implements language.Language.
type Language struct{}

// Name implements language.Language: toy_enabled switches it.
func (Language) Name() string { return "toy" }

// Detect implements language.Language: the runtime has a symbol for what it says.
func (Language) Detect(_ string, file *elffile.File) language.Library {
	const symbol = "toy_code"
	symbols, err := file.Objects(symbol)
	if at, ok := symbols[symbol]; ok && err == nil {
		return library{description: at}
	}
	return nil
}

// library is a Toy runtime. It implements language.Library.
type library struct {
	language.NoInterpreter
	description uint64 // the ELF virtual address of what it says
}

// description is what the runtime says of its code, little endian.
type description struct {
	Low, High uint64   // where it is; 0: nowhere yet
	Name      [16]byte // what it is called, up to a zero
}

// maxCode bounds the code.
const maxCode = 1 << 30

// Attach implements language.Library.
func (l library) Attach(p language.Process) (language.Code, error) {
	c := &code{memory: p.Memory, at: l.description + p.Bias, pages: map[uint64]bool{}}
	var err error
	if c.says, err = c.read(); err != nil {
		return nil, err
	}
	switch d := &c.says; {
	case d.Low == 0:
		return nil, fmt.Errorf("toy: %w", language.ErrNotReady)
	case d.High <= d.Low || d.High-d.Low > maxCode:
		return nil, errors.New("toy: implausible bounds of code")
	}
	return c, nil
}

// code is the code in one process. It implements language.Code.
type code struct {
	language.PlainCode
	memory language.Memory
	at     uint64 // of the description
	says   description
	pages  map[uint64]bool // that were built
}

func (c *code) read() (d description, err error) {
	b := make([]byte, binary.Size(d))
	if _, err := c.memory.ReadAt(b, int64(c.at)); err != nil {
		return d, fmt.Errorf("toy: %w", err)
	}
	return d, binary.Read(bytes.NewReader(b), binary.LittleEndian, &d)
}

// Path implements language.Code.
func (c *code) Path() string { return "[toy]" }

// Language implements language.Code.
func (c *code) Language() string { return Language{}.Name() }

// Bounds implements language.Code.
func (c *code) Bounds() (low, high uint64) { return c.says.Low, c.says.High }

// framePointer is CFA = rbp + 16; rbp = *(CFA - 16).
var framePointer = unwind.WideRule{
	CFA: unwind.CFAFP, CFAOff: 16, Rules: unwind.Rules(unwind.FPAtCFA, unwind.RADefault), FPOff: -16,
}

// Page implements language.RowSource.
func (c *code) Page(n uint64, shift uint8) (*unwind.Page, error) {
	c.pages[n] = true
	return unwind.PageOf(n, shift, []unwind.Change{{Vaddr: n << shift, Rule: framePointer}}), nil
}

// CallFrame implements language.RowSource.
func (c *code) CallFrame(uint64) (unwind.CallFrame, bool, error) {
	return unwind.CallFrame{}, false, nil
}

// Changed implements language.RowSource: all code has changed when the description has.
func (c *code) Changed(pages []uint64) []uint64 {
	if now, err := c.read(); err == nil && now == c.says {
		return nil
	}
	c.Forget(pages)
	return pages
}

// Trim implements language.RowSource: nothing is kept.
func (c *code) Trim(time.Time) {}

// Close implements language.Code.
func (c *code) Close() {}

// Built implements language.Code.
func (c *code) Built() (pages []uint64) {
	for n := range c.pages {
		pages = append(pages, n)
	}
	return pages
}

// Forget implements language.Code.
func (c *code) Forget(pages []uint64) {
	for _, n := range pages {
		delete(c.pages, n)
	}
}

// theCode is the number of the only piece of code.
const theCode = unwind.UnknownCode + 1

// Identify implements language.Code.
func (c *code) Identify(vaddr, _ uint64) unwind.CodeID {
	addr := vaddr + language.Base(c.says.Low)
	if addr < c.says.Low || addr >= c.says.High {
		return unwind.UnknownCode
	}
	return theCode
}

// Lines implements language.Code.
func (c *code) Lines(id unwind.CodeID) []language.Line {
	if id != theCode {
		return nil
	}
	name, _, _ := bytes.Cut(c.says.Name[:], []byte{0})
	return []language.Line{{Function: string(name)}}
}
