package endurance

import (
	"bytes"
	"compress/flate"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
)

// elfSection is a section to be added to an ELF file. It takes size bytes there; those
// beyond data are a hole.
type elfSection struct {
	name  string
	flags elf.SectionFlag
	data  []byte
	size  int64
}

// addSections adds sections that are not loaded at the end of a 64-bit little-endian
// ELF file, which will be executed.
func addSections(t testing.TB, program string, added ...elfSection) {
	t.Helper()
	path := program + ".sections" // testkit.CopyProgram says why another process writes the program
	testkit.CopyProgram(t, program, path)
	defer func() {
		testkit.CopyProgram(t, path, program)
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var header elf.Header64
	check(binary.Read(f, binary.LittleEndian, &header))
	sections := make([]elf.Section64, header.Shnum)
	_, err = f.Seek(int64(header.Shoff), 0)
	check(err)
	check(binary.Read(f, binary.LittleEndian, sections))
	namesAt := &sections[header.Shstrndx]
	names := make([]byte, namesAt.Size)
	_, err = f.ReadAt(names, int64(namesAt.Off))
	check(err)

	end, err := f.Seek(0, 2)
	check(err)
	for _, s := range added {
		size := max(s.size, int64(len(s.data)))
		sections = append(sections, elf.Section64{
			Name: uint32(len(names)), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(s.flags), Off: uint64(end),
			Size: uint64(size), Addralign: 1,
		})
		names = append(append(names, s.name...), 0)
		_, err = f.WriteAt(s.data, end)
		check(err)
		end += size
	}
	namesAt = &sections[header.Shstrndx]
	namesAt.Off, namesAt.Size = uint64(end), uint64(len(names))
	_, err = f.WriteAt(names, end)
	check(err)
	header.Shoff, header.Shnum = uint64(end)+uint64(len(names)), uint16(len(sections))
	for at, what := range map[int64]any{int64(header.Shoff): sections, 0: header} {
		var b bytes.Buffer
		check(binary.Write(&b, binary.LittleEndian, what))
		_, err = f.WriteAt(b.Bytes(), at)
		check(err)
	}
}

// linkSection returns a .gnu_debuglink to a file.
func linkSection(name string, crc uint32) elfSection {
	data := append([]byte(name), make([]byte, 4-len(name)%4)...)
	return elfSection{name: ".gnu_debuglink", data: binary.LittleEndian.AppendUint32(data, crc)}
}

// bombs returns compressed sections of DWARF data that each unpack to size zeros. The older form of compression uses
// another name instead of a flag. A ratio other than 0 pads each section with a hole, so that it unpacks to at most
// ratio times its size.
func bombs(t testing.TB, size int64, older bool, ratio int64) (all []elfSection) {
	t.Helper()
	packed := zeros(t, size)
	for _, name := range []string{"info", "abbrev", "line", "str"} {
		s := elfSection{name: ".debug_" + name, flags: elf.SHF_COMPRESSED}
		if older {
			s.name, s.flags = ".zdebug_"+name, 0
			s.data = binary.BigEndian.AppendUint64([]byte("ZLIB"), uint64(size))
		} else {
			var header bytes.Buffer
			compressed := elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(size), Addralign: 1}
			if err := binary.Write(&header, binary.LittleEndian, compressed); err != nil {
				t.Fatal(err)
			}
			s.data = header.Bytes()
		}
		s.data = append(s.data, packed...)
		if ratio > 0 {
			s.size = size / ratio
		}
		all = append(all, s)
	}
	return all
}

// zeros returns size zeros, a multiple of 1 MiB, in zlib's format (RFC 1950).
func zeros(t testing.TB, size int64) []byte {
	t.Helper()
	const piece = 1 << 20
	var block bytes.Buffer
	w, err := flate.NewWriter(&block, flate.BestCompression)
	if err == nil {
		_, err = w.Write(make([]byte, piece))
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte{0x78, 0xda}, bytes.Repeat(block.Bytes(), int(size/piece))...)
	out = append(out, 1, 0, 0, 0xff, 0xff) // an empty block, the last one
	return binary.BigEndian.AppendUint32(out, uint32(size%65521)<<16|1)
}
