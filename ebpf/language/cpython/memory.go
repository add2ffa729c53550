package cpython

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/language"
)

// errImplausible reports that data of a process is invalid.
var errImplausible = errors.New("implausible data")

// memory reads the memory of a process.
type memory struct{ m language.Memory }

// readBytes reads n bytes at addr.
func (m memory) readBytes(addr uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	if addr > 1<<63-1-uint64(n) {
		return nil, fmt.Errorf("%w: address %#x", errImplausible, addr)
	}
	if got, err := m.m.ReadAt(b, int64(addr)); got < n {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

func (m memory) u64(addr uint64) (uint64, error) {
	b, err := m.readBytes(addr, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// pointer reads a pointer, which must not be zero.
func (m memory) pointer(addr uint64) (uint64, error) {
	value, err := m.u64(addr)
	if err == nil && value == 0 {
		err = errNotBegun
	}
	return value, err
}
