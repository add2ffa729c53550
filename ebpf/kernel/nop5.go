package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cilium/ebpf/features"
)

// nop5 is the 5-byte nop instruction of x86.
var nop5 = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}

// replacesNop5 is the first kernel version that replaces a nop5 at a probe by a faster call: 6.18, encoded as
// KERNEL_VERSION.
const replacesNop5 = 6<<16 | 18<<8

// checkNop5 refuses a uprobe that may damage data in the red zone of a function, the 128 bytes below the stack pointer
// that the System V ABI gives it: the call that the kernel puts in place of the instruction writes there. At its entry
// a function has no data there yet.
func (e *ProbeEvent) checkNop5() error {
	if e.Type != "uprobe" || e.Entry || runtime.GOARCH != "amd64" {
		return nil
	}
	version, err := features.LinuxVersionCode()
	if err != nil || version < replacesNop5 {
		return err
	}
	f, err := os.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	code := make([]byte, len(nop5))
	if _, err := f.ReadAt(code, int64(e.Offset)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.Equal(code, nop5) {
		return fmt.Errorf("the instruction at %#x of %s is a 5-byte nop: this kernel, like Linux 6.18 and newer, replaces "+
			"it by a call, which overwrites the function's data below the stack pointer", e.Offset, e.Path)
	}
	return nil
}
