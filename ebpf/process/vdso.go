package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// openVDSO reads the vdso from this process's own memory: all processes of the host have the same one. The vdso of an
// ended process, which may have run on another host, is read from the process's memory at m.
func openVDSO(fs procfs.FS, m *procfs.Mapping) (*Executable, *image) {
	e := &Executable{Path: procfs.VDSO}
	var content []byte
	var err error
	if memory := fs.Memory(0); memory.OfEnded() {
		content = make([]byte, min(m.End-m.Start, maxVDSO))
		_, err = memory.ReadAt(content, int64(m.Start))
	} else {
		content, err = readVDSO()
	}
	if err != nil {
		e.Err = fmt.Errorf("read vdso: %w", err)
		return e, newImage(e, nil)
	}
	file, err := elffile.New(bytes.NewReader(content))
	if e.Err = err; err == nil {
		e.BuildID = file.BuildID()
	}
	i := newImage(e, file)
	i.mapped = uint64(len(content)) // more than its segment, which on arm64 fills half of one of two pages
	return e, i
}

// maxVDSO is more than the size of any vdso.
const maxVDSO = 1 << 20

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
		if m.Path == procfs.VDSO {
			image := make([]byte, m.End-m.Start)
			_, err := mem.ReadAt(image, int64(m.Start))
			return image, err
		}
	}
	return nil, errors.New("this process has none")
}
