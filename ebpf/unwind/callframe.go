package unwind

import "github.com/headwater/headwater/ebpf/unwind/ehframe"

// CallFrame is the call frame information of one address, whether a row can express it or not.
type CallFrame struct {
	Row            ehframe.Row
	ReturnRegister uint16 // the column of the return address
	Signal         bool   // the row of a signal trampoline
}
