package language

import (
	"errors"
	"fmt"
)

// errSpec reports a Spec that exceeds the abilities of the BPF program.
var errSpec = errors.New("bad description of an interpreter")

// Check returns why the BPF program cannot use s, or nil if it can.
func (s *Spec) Check() error {
	if s.Slots != nil {
		return s.checkSlots()
	}
	if s.Chain == nil {
		return nil
	}
	c := s.Chain
	if err := c.checkStart(s.Everywhere); err != nil {
		return err
	}
	if err := c.Frame.check(); err != nil {
		return err
	}
	words := len(c.Frame.Words)
	switch {
	case c.Next.Word < -1 || c.Next.Word >= words:
		return fmt.Errorf("%w: its next frame is at word %d of %d", errSpec, c.Next.Word, words)
	case c.Next.Word < 0 && c.Next.Offset == 0:
		return fmt.Errorf("%w: its next frame is the same", errSpec)
	case c.Stop != nil && (c.Stop.Word < 0 || c.Stop.Word >= words):
		return fmt.Errorf("%w: it stops by word %d of %d", errSpec, c.Stop.Word, words)
	}
	return nil
}

func (s *Spec) checkSlots() error {
	l := &s.Slots.Frame
	if s.Chain != nil || s.Everywhere || s.Slots.Low > s.Slots.High || len(l.Cookie) == 0 || len(l.Texts) > 0 {
		return fmt.Errorf("%w: slots from 0x%x to 0x%x", errSpec, s.Slots.Low, s.Slots.High)
	}
	return l.check()
}

func (c *Chain) checkStart(everywhere bool) error {
	if n := len(c.Start) + len(c.Then); len(c.Start) == 0 || n > MaxSteps {
		return fmt.Errorf("%w: %d steps to its first frame, of 1 to %d", errSpec, n, MaxSteps)
	}
	for _, steps := range [][]Step{c.Start, c.Then} {
		for _, step := range steps {
			if step.Op < Global || step.Op > Running || step.Op == Absolute && everywhere ||
				step.Op == Running && step.Limit > MaxSteps {
				return fmt.Errorf("%w: step %+v", errSpec, step)
			}
		}
	}
	if c.Find != nil && c.Find.To != ByThreadPointer && c.Find.To != ByTID {
		return fmt.Errorf("%w: threads are found by %d", errSpec, c.Find.To)
	}
	return nil
}

func (l *Layout) check() error {
	if len(l.Blocks) == 0 || len(l.Blocks) > MaxBlocks || len(l.Words) == 0 || len(l.Words) > MaxWords ||
		len(l.Cookie) > MaxCookieWords || len(l.Texts) > MaxTexts {
		return fmt.Errorf("%w: %d blocks, %d words, a cookie of %d, %d texts", errSpec, len(l.Blocks), len(l.Words),
			len(l.Cookie), len(l.Texts))
	}
	for i, b := range l.Blocks {
		if b.Bytes <= 0 || b.Bytes > MaxBlockBytes || b.Bytes%8 != 0 {
			return fmt.Errorf("%w: block %d has %d bytes", errSpec, i, b.Bytes)
		}
		if i > 0 && !l.holds(b.At, i) {
			return fmt.Errorf("%w: block %d, %+v", errSpec, i, b)
		}
	}
	for _, w := range l.Words {
		if !l.holds(w, len(l.Blocks)) {
			return fmt.Errorf("%w: word %+v", errSpec, w)
		}
	}
	for _, w := range l.Cookie {
		if !l.holds(w, len(l.Blocks)) {
			return fmt.Errorf("%w: word %+v of the cookie", errSpec, w)
		}
	}
	for _, t := range l.Texts {
		if !l.holds(t.At, len(l.Blocks)) || t.Bytes <= 0 || t.Bytes > MaxTextBytes {
			return fmt.Errorf("%w: text %+v", errSpec, t)
		}
	}
	if l.Code < -1 || l.Code >= len(l.Words) || l.Code < 0 && len(l.Texts) > 0 {
		return fmt.Errorf("%w: its code object is word %d of %d", errSpec, l.Code, len(l.Words))
	}
	return nil
}

// IsCode reports whether w is the pointer to the code object.
func (l *Layout) IsCode(w Word) bool {
	return l.Code >= 0 && w.Block == l.Words[l.Code].Block && w.Offset == l.Words[l.Code].Offset
}

// FromCode reports whether the pointers to a block lead through the code object.
func (l *Layout) FromCode(block int) bool {
	for block > 0 {
		at := l.Blocks[block].At
		if l.IsCode(at) {
			return true
		}
		block = at.Block
	}
	return false
}

// holds reports whether w is in one of the first n blocks.
func (l *Layout) holds(w Word, n int) bool {
	return w.Block >= 0 && w.Block < n && w.Offset >= 0 && w.Offset%8 == 0 && w.Offset < l.Blocks[w.Block].Bytes
}
