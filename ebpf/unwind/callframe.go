package unwind

import "github.com/headwater/headwater/ebpf/ehframe"

// CallFrame is what call frame information states about one address, whether a
// row can express it or not.
type CallFrame struct {
	Row            ehframe.Row
	ReturnRegister uint16 // the column of the return address
	Signal         bool   // of a signal trampoline
}
