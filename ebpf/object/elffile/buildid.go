package elffile

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
)

// Limits on notes. Real notes are well below.
const (
	maxNotes   = 1 << 20 // bytes of one note section or segment
	maxBuildID = 128     // bytes of a build ID; GNU's has 20, Go's some 83
)

// Note types of the owners "GNU" and "Go".
const (
	noteGNUBuildID = 3 // NT_GNU_BUILD_ID
	noteGoBuildID  = 4
)

// BuildID returns the GNU build ID in lower-case hex, "" if there is none.
func (f *File) BuildID() string {
	return hex.EncodeToString(f.findNote("GNU", noteGNUBuildID))
}

// GoBuildID returns the Go tool chain's build ID as it is stored in the file, ""
// if there is none. It is text with slashes, not hex.
func (f *File) GoBuildID() string { return string(f.findNote("Go", noteGoBuildID)) }

// IsGo reports whether the Go tool chain made the file: it has the tool chain's build ID or its
// function table. strip keeps both.
func (f *File) IsGo() bool {
	return f.GoBuildID() != "" || f.HasSection(".gopclntab") || f.HasSection(".data.rel.ro.gopclntab")
}

// findNote returns the description of the first note of the given owner and type that has a
// description. It reads segments first, as the kernel does, and then sections, which separate debug
// files have.
func (f *File) findNote(owner string, typ uint32) []byte {
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_NOTE {
			if desc := f.noteAt(p.Off, p.Filesz, p.Align, owner, typ); desc != nil {
				return desc
			}
		}
	}
	for _, s := range f.elf.Sections {
		if s.Type == elf.SHT_NOTE && s.Flags&elf.SHF_COMPRESSED == 0 {
			if desc := f.noteAt(s.Offset, s.Size, s.Addralign, owner, typ); desc != nil {
				return desc
			}
		}
	}
	return nil
}

func (f *File) noteAt(off, size, align uint64, owner string, typ uint32) []byte {
	data, err := f.readRange(off, size, maxNotes)
	if err != nil {
		return nil
	}
	// Notes are padded to 4 bytes or, in 64-bit property notes, to 8. Some headers state the wrong
	// alignment, so try both.
	first, second := 4, 8
	if align == 8 {
		first, second = 8, 4
	}
	if desc := findNote(data, f.elf.ByteOrder, first, owner, typ); desc != nil {
		return desc
	}
	return findNote(data, f.elf.ByteOrder, second, owner, typ)
}

// findNote searches notes padded to align bytes: name size, description size,
// type, name, description (ELF gABI, "Note Section"). The result is nil or has
// at least one byte.
func findNote(data []byte, bo binary.ByteOrder, align int, owner string, typ uint32) []byte {
	const headerSize = 12
	for len(data) >= headerSize {
		nameSize, descSize := uint64(bo.Uint32(data)), uint64(bo.Uint32(data[4:]))
		noteType := bo.Uint32(data[8:])
		descAt := alignUp(headerSize+nameSize, uint64(align))
		end := descAt + descSize
		if end > uint64(len(data)) {
			return nil
		}
		name := string(data[headerSize:min(headerSize+nameSize, headerSize+uint64(len(owner)+1))])
		if noteType == typ && name == owner+"\x00" && descSize > 0 && descSize <= maxBuildID {
			return data[descAt:end:end]
		}
		next := alignUp(end, uint64(align))
		if next > uint64(len(data)) {
			return nil
		}
		data = data[next:]
	}
	return nil
}

// alignUp rounds up to a multiple of align, a power of two.
func alignUp(v, align uint64) uint64 { return (v + align - 1) &^ (align - 1) }
