package cpython

import (
	"testing"

	"golang.org/x/sys/unix"
)

// threadPointerOf returns the thread pointer of a traced and stopped thread.
func threadPointerOf(t *testing.T, tid int) uint64 {
	t.Helper()
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		t.Fatal(err)
	}
	return regs.Fs_base
}
