package cfi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// Rules are the unwind rules at one address.
type Rules struct {
	Row            ehframe.Row
	ReturnRegister uint16 // the column of the return address
	Signal         bool   // a signal trampoline: its caller was interrupted and did not call
}

// Step returns the caller of a frame, according to rules. bias is the load bias of the file. The
// end is Unset if there is a caller. Otherwise err gives the reason, except at Outermost,
// ZeroReturn and NoProgress.
func (m Machine) Step(f *Frame, rules *Rules, bias uint64, memory Memory) (Frame, End, error) {
	c := context{machine: m, frame: f, memory: memory, bias: bias}
	caller, end, err := c.stepFrame(rules)
	if err != nil {
		return Frame{}, endOf(err), fmt.Errorf("pc %#x: %w", f.PC, err)
	}
	return caller, end, nil
}

func (c context) stepFrame(rules *Rules) (Frame, End, error) {
	returns := rules.Row.Rule(rules.ReturnRegister)
	if returns.Kind == ehframe.Undefined {
		return Frame{}, Outermost, nil
	}
	cfa, err := c.computeCFA(&rules.Row.CFA)
	if err != nil {
		return Frame{}, Unset, fmt.Errorf("CFA: %w", err)
	}
	pc, err := c.returnAddress(returns, rules.ReturnRegister, cfa)
	if err != nil {
		return Frame{}, Unset, fmt.Errorf("return address: %w", err)
	}
	if pc &= c.machine.addrMask; pc == 0 {
		return Frame{}, ZeroReturn, nil
	}
	caller := Frame{PC: pc, Exact: rules.Signal}
	if err := c.restore(&caller.Regs, rules, cfa); err != nil {
		return Frame{}, Unset, err
	}
	if caller.PC == c.frame.PC && caller.Regs == c.frame.Regs {
		return Frame{}, NoProgress, nil
	}
	return caller, Unset, nil
}

// computeCFA returns the canonical frame address.
func (c context) computeCFA(rule *ehframe.CFA) (uint64, error) {
	switch rule.Kind {
	case ehframe.CFARegister:
		v, err := c.register(rule.Reg)
		return c.machine.truncate(v + uint64(rule.Offset)), err
	case ehframe.CFAExpression:
		return c.evaluate(rule.Expr)
	}
	return 0, errors.New("no rule")
}

// returnAddress returns the caller's pc.
func (c context) returnAddress(rule ehframe.Rule, column uint16, cfa uint64) (uint64, error) {
	unchanged := rule.Kind == ehframe.Unspecified || rule.Kind == ehframe.SameValue
	if unchanged && !c.machine.link {
		return 0, errors.New("no rule")
	}
	if unchanged {
		return c.register(column)
	}
	return c.value(rule, column, cfa)
}

// restore sets the caller's registers. An unavailable register stays unknown; only an unavailable
// stack pointer is an error.
func (c context) restore(regs *Registers, rules *Rules, cfa uint64) error {
	for number := range uint16(maxRegisters) {
		if number == c.machine.pc {
			continue // PC is not in Registers
		}
		rule := rules.Row.Rule(number)
		if rule.Kind == ehframe.Unspecified && !rules.Signal && c.machine.preserved>>number&1 == 0 {
			continue // the ABI allows the function to change it
		}
		if v, err := c.value(rule, number, cfa); err == nil {
			regs.Set(number, v)
		}
	}
	if c.machine.link && !rules.Signal {
		regs.Forget(rules.ReturnRegister) // the unfinished call changed it
	}
	rule := rules.Row.Rule(c.machine.sp)
	if rule.Kind == ehframe.Unspecified || rule.Kind == ehframe.SameValue {
		regs.Set(c.machine.sp, cfa)
		return nil
	}
	if _, err := c.value(rule, c.machine.sp, cfa); err != nil {
		return fmt.Errorf("stack pointer: %w", err)
	}
	return nil
}

// value returns the caller's value of a register according to a rule.
func (c context) value(rule ehframe.Rule, number uint16, cfa uint64) (uint64, error) {
	switch rule.Kind {
	case ehframe.Unspecified, ehframe.SameValue:
		return c.register(number)
	case ehframe.Offset:
		return c.readWord(c.machine.truncate(cfa + uint64(rule.Offset)))
	case ehframe.ValOffset:
		return c.machine.truncate(cfa + uint64(rule.Offset)), nil
	case ehframe.Register:
		return c.register(rule.Reg)
	case ehframe.Expression:
		addr, err := c.evaluate(rule.Expr, cfa)
		if err != nil {
			return 0, err
		}
		return c.readWord(addr)
	case ehframe.ValExpression:
		return c.evaluate(rule.Expr, cfa)
	}
	return 0, lostRegister(number)
}

func (c context) register(number uint16) (uint64, error) {
	if number == c.machine.pc {
		return c.frame.PC, nil
	}
	v, ok := c.frame.Regs.Get(number)
	if !ok {
		return 0, lostRegister(number)
	}
	return v, nil
}

func (c context) readWord(addr uint64) (uint64, error) {
	var b [8]byte
	if !c.memory.Read(addr, b[:c.machine.word]) {
		return 0, unreadable(addr)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}
