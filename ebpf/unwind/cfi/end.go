package cfi

import (
	"errors"
	"fmt"
)

// End is the reason why a walk ended.
type End uint8

// The ends of a walk.
const (
	Unset        End = iota // the walk continues
	Outermost               // the return address is undefined
	ZeroReturn              // the return address is zero
	NoMapping               // the address is in no mapping
	NoCFI                   // there is no call frame information for the address
	Unreadable              // memory is unmapped or missing in the copy
	RegisterLost            // a rule needs a register whose value is no longer known
	BadCFI                  // the information is invalid or unsupported
	NoProgress              // the caller is the frame itself
	DepthLimit              // the walk reached the maximum number of frames

	NumEnds = iota // number of ends
)

// String returns the name of e in snake_case.
func (e End) String() string {
	switch e {
	case Unset:
		return "unset"
	case Outermost:
		return "outermost"
	case ZeroReturn:
		return "zero_return"
	case NoMapping:
		return "no_mapping"
	case NoCFI:
		return "no_cfi"
	case Unreadable:
		return "unreadable"
	case RegisterLost:
		return "register_lost"
	case BadCFI:
		return "bad_cfi"
	case NoProgress:
		return "no_progress"
	case DepthLimit:
		return "depth_limit"
	}
	return "unknown"
}

// Complete reports whether the walk reached the root of the stack.
func (e End) Complete() bool { return e == Outermost || e == ZeroReturn }

// ErrNoCFI says that a file has no call frame information about an address.
var ErrNoCFI = errors.New("no call frame information")

// errLost and errUnreadable say that a value is unavailable although its rule is well formed.
var (
	errLost       = errors.New("register is not known")
	errUnreadable = errors.New("memory cannot be read")
)

func lostRegister(number uint16) error { return fmt.Errorf("register %d: %w", number, errLost) }

func unreadable(addr uint64) error { return fmt.Errorf("address %#x: %w", addr, errUnreadable) }

// endOf classifies an error.
func endOf(err error) End {
	switch {
	case errors.Is(err, errLost):
		return RegisterLost
	case errors.Is(err, errUnreadable):
		return Unreadable
	case errors.Is(err, ErrNoCFI):
		return NoCFI
	}
	return BadCFI
}
