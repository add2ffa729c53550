package procfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenBlocks: os has the runtime poll a file whose reads would not wait.
func TestOpenBlocks(t *testing.T) {
	f, err := Open("", "open_blocking_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := f.(*os.File).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("flags %#x, %v", flags, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
