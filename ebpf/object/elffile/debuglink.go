package elffile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// maxDebugLink bounds the size of .gnu_debuglink: a file name, padding and a CRC.
const maxDebugLink = 4096 + 8

// DebugLink returns the content of .gnu_debuglink: the file name of the separate debug file and the
// CRC-32 (IEEE) of its content. ok is false if there is no such section or the name is not a plain
// file name.
//
// The format is described in the GDB manual, "Separate Debug Files".
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

// parseDebugLink decodes a file name, its terminator and padding to four
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

// AltLink returns the file name in .gnu_debugaltlink and the build ID, in lower-case hex, of that
// supplementary file. dwz moves content that several debug files share into the supplementary file.
// The name is absolute or relative to the folder of this file. AltLink also reads .debug_sup of
// DWARF 5, which has a checksum in place of the build ID.
func (f *File) AltLink() (name, buildID string, ok bool) {
	if s := f.section(".gnu_debugaltlink"); s != nil {
		data, err := f.sectionData(s, maxDebugLink)
		end := bytes.IndexByte(data, 0)
		if err != nil || end <= 0 {
			return "", "", false
		}
		return string(data[:end]), hex.EncodeToString(data[end+1:]), true
	}
	s := f.section(".debug_sup")
	if s == nil {
		return "", "", false
	}
	data, err := f.sectionData(s, maxDebugLink)
	if err != nil {
		return "", "", false
	}
	return parseDebugSup(data, f.elf.ByteOrder)
}

// parseDebugSup decodes .debug_sup: the version 5, a flag that is set only in the supplementary
// file itself, the name of the supplementary file, and a block that identifies it (DWARF 5 section
// 7.3.6).
func parseDebugSup(data []byte, bo binary.ByteOrder) (name, id string, ok bool) {
	if len(data) < 4 || bo.Uint16(data) != 5 || data[2] != 0 {
		return "", "", false
	}
	data = data[3:]
	end := bytes.IndexByte(data, 0)
	if end <= 0 {
		return "", "", false
	}
	size, n := binary.Uvarint(data[end+1:]) // ULEB128
	rest := data[end+1:]
	if n <= 0 || size > uint64(len(rest)-n) {
		return "", "", false
	}
	return string(data[:end]), hex.EncodeToString(rest[n : n+int(size)]), true
}

// ByteOrder returns the byte order of the image.
func (f *File) ByteOrder() binary.ByteOrder { return f.elf.ByteOrder }
