package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/procfs"
)

// vdsoPath is what the kernel calls the code that it maps into every process.
const vdsoPath = "[vdso]"

// openVDSO reads the vdso from this process's own memory: it is the same one
// everywhere.
func openVDSO() *Executable {
	image, err := readVDSO()
	if err != nil {
		return &Executable{Path: vdsoPath, Err: fmt.Errorf("read vdso: %w", err)}
	}
	// More than its segment may be mapped: on arm64, two pages of which it fills half of one.
	e := &Executable{Path: vdsoPath, mapped: uint64(len(image))}
	e.elf, e.Err = elffile.New(bytes.NewReader(image))
	return e
}

func readVDSO() ([]byte, error) {
	mappings, err := procfs.Default.ExecMappings(uint32(os.Getpid()))
	if err != nil {
		return nil, err
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	for _, m := range mappings {
		if m.Path == vdsoPath {
			image := make([]byte, m.End-m.Start)
			_, err := mem.ReadAt(image, int64(m.Start))
			return image, err
		}
	}
	return nil, errors.New("this process has none")
}
