package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// hostileLink makes a program without a build ID whose debug file, named by its link, is extended with zeros to size.
func hostileLink(t *testing.T, size int64) (program separated, debug string) {
	t.Helper()
	program = separate(t, "-Wl,--build-id=none")
	debug = writeFile(t, program.debug, filepath.Dir(program.path), debugName)
	if err := os.Truncate(debug, size); err != nil {
		t.Fatal(err)
	}
	return program, debug
}

// To read a sparse file of 2 TiB for its checksum would take ten minutes.
func TestSparseDebugFile(t *testing.T) {
	program, debug := hostileLink(t, 2<<40)
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, program.path)
	began := time.Now()
	if got := s.Frames(o, program.inner, false)[0]; got.Kind != Unknown {
		t.Errorf("%+v", got)
	}
	s.refresh(began.Add(time.Hour))
	if took := time.Since(began); took > debugfile.MaxLinkedTime+2*time.Minute { // the machine may be busy
		t.Errorf("naming took %v", took)
	}
	if status, _ := s.Status(o); !errors.Is(status.Err, elffile.ErrTooLarge) {
		t.Errorf("status %+v", status)
	}
	if hits := s.LimitHits()[limit.DebugLink]; hits == 0 {
		t.Error("the limit was not counted")
	}
	// Another file keeps its names, and this file gets its own names after it is complete.
	other := separate(t, "-Wl,--build-id=none", "-DOTHER=1")
	writeFile(t, other.debug, filepath.Dir(other.path), debugName)
	if got := s.Frames(object(t, 2, other.path), other.inner, false)[0]; got.Function != "inner" {
		t.Errorf("another file: %+v", got)
	}
	writeFile(t, program.debug, debug)
	s.refresh(time.Now().Add(2 * time.Hour))
	if got := s.Frames(o, program.inner, false)[0]; got.Function != "inner" {
		t.Errorf("after it was written again: %+v", got)
	}
}

// countedReader counts the bytes read.
type countedReader struct {
	*bytes.Reader
	read atomic.Int64
}

func (c *countedReader) ReadAt(b []byte, off int64) (int, error) {
	c.read.Add(int64(len(b)))
	return c.Reader.ReadAt(b, off)
}

// TestLongAliases: a million symbols at a few addresses, whose names overlap in one string of 8 MB, cost a bounded
// number of bytes read. A limit hit is counted, and functions still have names.
func TestLongAliases(t *testing.T) {
	for _, tt := range []struct {
		name      string
		addresses uint64
		typ       elf.SymType
	}{{"one address", 1, elf.STT_FUNC}, {"many addresses", 50_000, elf.STT_FUNC}, {"labels", 50_000, elf.STT_NOTYPE}} {
		t.Run(tt.name, func(t *testing.T) {
			program := compile(t, "long.c", "int main(void) { return 0; }")
			image, text := withAliases(t, program, 1_000_000, tt.addresses, tt.typ)
			r := &countedReader{Reader: bytes.NewReader(image)}
			o := object(t, 1, program)
			o.Open = func() (*elffile.File, error) { return elffile.New(r) }
			s := New(Options{DebugDirs: []string{t.TempDir()}})
			named := s.Frames(o, text, false)[0]
			if read := r.read.Load(); read > 1<<30 {
				t.Errorf("%d MiB were read", read>>20)
			}
			if tt.addresses > 1 && s.LimitHits()[limit.ELF] == 0 {
				t.Error("the limit was not counted")
			}
			if tt.typ == elf.STT_FUNC && named.Kind != Native {
				t.Errorf("%+v", named)
			}
		})
	}
}

// withAliases returns the image of a program whose symbol table has count symbols for the first addresses of .text, and
// the start of .text. Their names are tails of one string.
func withAliases(t *testing.T, path string, count int, addresses uint64, typ elf.SymType) (image []byte, text uint64) {
	t.Helper()
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	const long = 8 << 20
	strings := append(append([]byte{0}, bytes.Repeat([]byte("A"), long)...), 0)
	index := slices.IndexFunc(parsed.Sections, func(s *elf.Section) bool { return s.Name == ".text" })
	code := parsed.Sections[index]
	var symbols bytes.Buffer
	for i := range count {
		_ = binary.Write(&symbols, binary.LittleEndian, elf.Sym64{
			Name: uint32(1 + i*7919%(long/2)), Info: elf.ST_INFO(elf.STB_GLOBAL, typ), Shndx: uint16(index),
			Value: code.Addr + uint64(i)%addresses, Size: 1,
		})
	}
	headers := int(binary.LittleEndian.Uint64(image[40:]))
	for i, section := range parsed.Sections {
		var body []byte
		switch section.Name {
		case ".symtab":
			body = symbols.Bytes()
		case ".strtab":
			body = strings
		default:
			continue
		}
		header := image[headers+i*64:]
		binary.LittleEndian.PutUint64(header[24:], uint64(len(image)))
		binary.LittleEndian.PutUint64(header[32:], uint64(len(body)))
		image = append(image, body...)
	}
	return image, code.Addr
}
