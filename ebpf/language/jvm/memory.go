package jvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/language"
)

// memory reads the memory of a process. It keeps the error of the first failed read; later reads return zeros.
type memory struct {
	r   io.ReaderAt // by address
	err error
}

// readBytes fills b from addr, with zeros if that fails.
func (m *memory) readBytes(addr uint64, b []byte) {
	if m.err == nil {
		if addr > 1<<63-1-uint64(len(b)) {
			m.err = fmt.Errorf("read memory at 0x%x: %w", addr, errImplausible)
		} else if n, err := m.r.ReadAt(b, int64(addr)); n < len(b) {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			m.err = fmt.Errorf("read memory at 0x%x: %w", addr, err)
		}
	}
	if m.err != nil {
		clear(b)
	}
}

func (m *memory) u64(addr uint64) uint64 {
	var b [8]byte
	m.readBytes(addr, b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (m *memory) u32(addr uint64) uint32 {
	var b [4]byte
	m.readBytes(addr, b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (m *memory) u16(addr uint64) uint16 {
	var b [2]byte
	m.readBytes(addr, b[:])
	return binary.LittleEndian.Uint16(b[:])
}

// cString returns the string at addr, at most maxString bytes.
func (m *memory) cString(addr uint64) string {
	const piece = 64 // a read never crosses the end of a page of memory
	var out []byte
	for len(out) < maxString {
		b := make([]byte, piece-addr%piece)
		m.readBytes(addr, b)
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(out, b[:end]...))
		}
		out = append(out, b...)
		addr += uint64(len(b))
	}
	return string(out[:maxString])
}

// maxString is the maximum length of a name in bytes: the VM's own names are shorter.
const maxString = 256

// cached is an io.ReaderAt that reads memory in large pieces, for data that is read in many small pieces and does not
// change while it is read.
type cached struct {
	r      io.ReaderAt
	chunks map[int64][]byte
	busy   error // language.ErrBusy if a read had that error: then the data read is incomplete
}

const (
	chunkSize = 4096 // the smallest page of memory
	maxChunks = 4096
)

func (c *cached) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		start := (at + int64(n)) &^ (chunkSize - 1)
		chunk := c.chunks[start]
		if chunk == nil {
			if len(c.chunks) >= maxChunks {
				return n, errImplausible
			}
			chunk = make([]byte, chunkSize)
			if got, err := c.r.ReadAt(chunk, start); got < chunkSize {
				if errors.Is(err, language.ErrBusy) {
					c.busy = err
				}
				return n, err
			}
			c.chunks[start] = chunk
		}
		n += copy(b[n:], chunk[at+int64(n)-start:])
	}
	return n, nil
}
