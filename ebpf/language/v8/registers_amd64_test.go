package v8

import (
	"syscall"
	"testing"
)

// registers returns the program counter and the frame pointer of a stopped thread.
func registers(t *testing.T, tid int) (pc, fp uint64) {
	t.Helper()
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &r); err != nil {
		t.Fatal(err)
	}
	return r.Rip, r.Rbp
}
