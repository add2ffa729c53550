package cpython

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadPointerOf returns the thread pointer of a traced and stopped thread.
func threadPointerOf(t *testing.T, tid int) (pointer uint64) {
	t.Helper()
	const tls = 0x401 // NT_ARM_TLS
	vector := unix.Iovec{Base: (*byte)(unsafe.Pointer(&pointer)), Len: 8}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), tls,
		uintptr(unsafe.Pointer(&vector)), 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return pointer
}
