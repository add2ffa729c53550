package elffile

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// maxDebugLink bounds .gnu_debuglink: a file name, padding and a CRC.
const maxDebugLink = 4096 + 8

// DebugLink returns what .gnu_debuglink says: the file name of the separate
// debug file and the CRC-32 (IEEE) of its content. ok is false if there is no
// such section or its name is not a plain file name.
// Format: GDB manual, "Separate Debug Files".
func (f *File) DebugLink() (name string, crc uint32, ok bool) {
	s := f.section(".gnu_debuglink")
	if s == nil {
		return "", 0, false
	}
	data, err := f.sectionData(s, maxDebugLink)
	if err != nil {
		return "", 0, false
	}
	return parseDebugLink(data, f.elf.ByteOrder)
}

// parseDebugLink takes apart a file name, its terminator and padding to four
// bytes, and a CRC.
func parseDebugLink(data []byte, bo binary.ByteOrder) (name string, crc uint32, ok bool) {
	end := bytes.IndexByte(data, 0)
	if end < 0 {
		return "", 0, false
	}
	crcAt := int(alignUp(uint64(end)+1, 4))
	if crcAt+4 > len(data) {
		return "", 0, false
	}
	name = string(data[:end])
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return "", 0, false
	}
	return name, bo.Uint32(data[crcAt:]), true
}
