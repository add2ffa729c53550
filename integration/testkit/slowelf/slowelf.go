// Package slowelf makes ELF files that take long to read.
package slowelf

import (
	"bytes"
	"crypto/rand"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"
)

// Image is a 64-bit ELF file in this machine's byte order whose sections can be changed.
type Image struct {
	data     []byte
	header   elf.Header64
	sections []elf.Section64
	index    map[string]int
}

// Read reads a program. If it has a build ID, the image gets a different one.
func Read(t testing.TB, path string) *Image {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := &Image{data: data, index: map[string]int{}}
	file, err := elf.NewFile(bytes.NewReader(b.data))
	if err != nil {
		t.Fatal(err)
	}
	if err := binary.Read(bytes.NewReader(b.data), binary.NativeEndian, &b.header); err != nil {
		t.Fatal(err)
	}
	b.sections = make([]elf.Section64, b.header.Shnum)
	if err := binary.Read(bytes.NewReader(b.data[b.header.Shoff:]), binary.NativeEndian, b.sections); err != nil {
		t.Fatal(err)
	}
	for i, s := range file.Sections {
		b.index[s.Name] = i
	}
	if _, ok := b.index[".note.gnu.build-id"]; ok {
		id := b.section(".note.gnu.build-id")
		if _, err := rand.Read(b.data[id.Off+16 : id.Off+id.Size]); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// Text returns the address of the program's code, and its size.
func (b *Image) Text() (addr, size uint64) {
	text := b.section(".text")
	return text.Addr, text.Size
}

// Write writes the file.
func (b *Image) Write(t testing.TB, path string) {
	t.Helper()
	var sections bytes.Buffer
	if err := binary.Write(&sections, binary.NativeEndian, b.sections); err != nil {
		t.Fatal(err)
	}
	copy(b.data[b.header.Shoff:], sections.Bytes())
	if err := os.WriteFile(path, b.data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func (b *Image) section(name string) *elf.Section64 { return &b.sections[b.index[name]] }

func (b *Image) replace(name string, content []byte) {
	s := b.section(name)
	s.Off, s.Size = uint64(len(b.data)), uint64(len(content))
	b.data = append(b.data, content...)
}

// Frames makes .eh_frame size bytes long, without an index: its entries of 20 bytes all refer to one distant entry,
// each with a different distance.
func (b *Image) Frames(size int) {
	const entry = 20
	order := binary.NativeEndian
	old := b.section(".eh_frame")
	first := b.data[old.Off:]
	first = first[:order.Uint32(first)+4]
	b.data = append(b.data, make([]byte, -len(b.data)&4095)...)
	content := append(make([]byte, 0, size), first...)
	for len(content) < size-entry {
		at := uint32(len(content))
		content = order.AppendUint32(content, entry-4)
		content = order.AppendUint32(content, at+4)
		content = order.AppendUint32(content, -((at + 8 + 0x1000) % 0x7ffffff0))
		content = order.AppendUint32(content, 16)
		content = append(content, 0, 0, 0, 0)
	}
	b.replace(".eh_frame", content)
	b.section(".eh_frame").Addr = 0x10000000
	b.section(".eh_frame_hdr").Type = uint32(elf.SHT_NOBITS)
	for i := range b.header.Phnum {
		header := b.data[b.header.Phoff+uint64(i)*uint64(b.header.Phentsize):]
		if order.Uint32(header) == uint32(elf.PT_GNU_EH_FRAME) {
			order.PutUint32(header, uint32(elf.PT_NULL))
		}
	}
}

// Names adds symbols at addresses in .text, whose names are suffixes of one string of 8 MiB.
func (b *Image) Names(symbols int) {
	const longest = 4 << 20
	addr, size := b.Text()
	table := make([]byte, 0, symbols*elf.Sym64Size)
	for i := range uint64(symbols) {
		table = binary.NativeEndian.AppendUint32(table, uint32(1+i*7919%longest))
		table = append(table, elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), 0)
		table = binary.NativeEndian.AppendUint16(table, uint16(b.index[".text"]))
		table = binary.NativeEndian.AppendUint64(table, addr+i%size)
		table = binary.NativeEndian.AppendUint64(table, 1)
	}
	b.replace(".symtab", table)
	b.replace(".strtab", append(append([]byte{0}, bytes.Repeat([]byte{'A'}, 2*longest)...), 0))
}

// Functions adds symbols with distinct names at distinct addresses, starting at .text.
func (b *Image) Functions(symbols int) {
	addr, _ := b.Text()
	table, names := make([]byte, 0, symbols*elf.Sym64Size), []byte{0}
	for i := range uint64(symbols) {
		table = binary.NativeEndian.AppendUint32(table, uint32(len(names)))
		table = append(table, elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), 0)
		table = binary.NativeEndian.AppendUint16(table, uint16(b.index[".text"]))
		table = binary.NativeEndian.AppendUint64(table, addr+i*0x9e3779b1%uint64(symbols)) // in no particular order
		table = binary.NativeEndian.AppendUint64(table, 1)
		names = append(binary.AppendUvarint(append(names, "f_"...), i|1<<40), 0) // only the last byte is zero
	}
	b.replace(".symtab", table)
	b.replace(".strtab", names)
	b.section(".text").Size = uint64(symbols)
}

// Add replaces an unused section, .comment, by a section with the given name and content.
func (b *Image) Add(t testing.TB, name string, content []byte) {
	t.Helper()
	names := b.sections[b.header.Shstrndx]
	table := append(bytes.Clone(b.data[names.Off:names.Off+names.Size]), name...)
	s := b.section(".comment")
	s.Name, s.Off, s.Size, s.Flags = uint32(names.Size), uint64(len(b.data)), uint64(len(content)), 0
	b.data = append(b.data, content...)
	at := &b.sections[b.header.Shstrndx]
	at.Off, at.Size = uint64(len(b.data)), uint64(len(table)+1)
	b.data = append(append(b.data, table...), 0)
}
