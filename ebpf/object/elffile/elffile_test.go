package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

const helloProgram = `#include <stdio.h>
int main(void) { puts("hello"); return 0; }`

var readelfBuildID = regexp.MustCompile(`Build ID: ([0-9a-f]*)`)

func TestBuildIDMatchesReadelf(t *testing.T) {
	for name, path := range map[string]string{
		"libc":      libc(t),
		"default":   compile(t, helloProgram, "-Wl,--build-id"),
		"short":     compile(t, helloProgram, "-Wl,--build-id=md5"),
		"none":      compile(t, helloProgram, "-Wl,--build-id=none"),
		"debugOnly": onlyKeepDebug(t, compile(t, helloProgram, "-g", "-Wl,--build-id")),
	} {
		want := ""
		if m := readelfBuildID.FindStringSubmatch(run(t, "readelf", "-nW", path)); m != nil {
			want = m[1]
		}
		if (want == "") != (name == "none") {
			t.Errorf("%s: readelf found the build ID %q", name, want)
		}
		if got := open(t, path).BuildID(); got != want {
			t.Errorf("%s: build ID %q, readelf says %q", name, got, want)
		}
		if got := open(t, withoutSections(t, path)).BuildID(); got != want && name != "debugOnly" {
			t.Errorf("%s: build ID %q without sections, want %q", name, got, want)
		}
	}
}

func TestGoBuildIDMatchesGoTool(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(run(t, "go", "tool", "buildid", exe))
	if got := open(t, exe).GoBuildID(); got != want {
		t.Errorf("Go build ID %q, go tool buildid says %q", got, want)
	}
	if !open(t, exe).IsGo() || open(t, libc(t)).IsGo() {
		t.Errorf("Go's: %v, libc: %v", open(t, exe).IsGo(), open(t, libc(t)).IsGo())
	}
	if got := open(t, libc(t)).GoBuildID(); got != "" {
		t.Errorf("Go build ID %q of libc", got)
	}
}

// note assembles a note padded to align.
func note(owner string, typ uint32, desc []byte, align uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(owner)+1))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, typ)
	b = append(append(b, owner...), 0)
	b = append(b, make([]byte, alignUp(uint64(len(b)), align)-uint64(len(b)))...)
	b = append(b, desc...)
	return append(b, make([]byte, alignUp(uint64(len(b)), align)-uint64(len(b)))...)
}

func TestFindNote(t *testing.T) {
	id := []byte{1, 2, 3, 4, 5}
	join := func(notes ...[]byte) []byte { return bytes.Join(notes, nil) }
	for _, tt := range []struct {
		name  string
		data  []byte
		align int
		want  []byte
	}{
		{"alone", note("GNU", 3, id, 4), 4, id},
		{"after others", join(note("GNU", 5, []byte{9, 9, 9}, 4), note("stapsdt", 3, id[:2], 4), note("GNU", 3, id, 4)),
			4, id},
		{"padded to 8", join(note("GNU", 5, []byte{9, 9, 9}, 8), note("GNU", 3, id, 8)), 8, id},
		{"empty one first", join(note("GNU", 3, nil, 4), note("GNU", 3, id, 4)), 4, id},
		{"only an empty one", note("GNU", 3, nil, 4), 4, nil},
		{"other owner", note("GNV", 3, id, 4), 4, nil},
		{"owner's prefix", note("GNUX", 3, id, 4), 4, nil},
		{"cut short", note("GNU", 3, id, 4)[:18], 4, nil},
		{"sizes that overflow", bytes.Repeat([]byte{0xff}, 64), 4, nil},
		{"too long", note("GNU", 3, make([]byte, maxBuildID+1), 4), 4, nil},
	} {
		if got := findNote(tt.data, binary.LittleEndian, tt.align, "GNU", 3); !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
	}
}

// Headers that state the wrong alignment must not hide the build ID.
func TestNoteWithWrongAlignment(t *testing.T) {
	for _, padded := range []uint64{4, 8} {
		for _, stated := range []uint64{0, 1, 4, 8, 64} {
			data := append(note("GNU", 5, []byte{1, 2, 3}, padded), note("GNU", 3, []byte{0xab}, padded)...)
			f := &File{r: bytes.NewReader(data), size: uint64(len(data)), elf: &elf.File{
				FileHeader: elf.FileHeader{ByteOrder: binary.LittleEndian},
				Progs: []*elf.Prog{{ProgHeader: elf.ProgHeader{Type: elf.PT_NOTE, Filesz: uint64(len(data)),
					Align: stated}}},
			}}
			if got := f.BuildID(); got != "ab" {
				t.Errorf("padded to %d, stated %d: build ID %q", padded, stated, got)
			}
		}
	}
}

func TestSectionsMatchObjcopy(t *testing.T) {
	path := libc(t)
	f := open(t, path)
	for name, read := range map[string]func() (*Section, error){
		".eh_frame":     f.EHFrame,
		".eh_frame_hdr": f.EHFrameHdr,
	} {
		s, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if want := objcopySection(t, path, name); !bytes.Equal(s.Data, want) {
			t.Errorf("%s: %d bytes differ from the %d that objcopy extracts", name, len(s.Data), len(want))
		}
	}
	if _, err := f.DebugFrame(); !errors.Is(err, ErrNoSection) {
		t.Errorf("DebugFrame: %v, want ErrNoSection", err)
	}
}

func TestSectionlessFile(t *testing.T) {
	path := compile(t, helloProgram)
	whole, bare := open(t, path), open(t, withoutSections(t, path))
	if len(bare.elf.Sections) != 0 {
		t.Fatal("the file has sections")
	}
	for _, read := range []func(*File) (*Section, error){(*File).EHFrameHdr, (*File).EHFrame} {
		want, err := read(whole)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(bare)
		if err != nil {
			t.Fatal(err)
		}
		if got.Addr != want.Addr || got.Name != want.Name || !bytes.HasPrefix(got.Data, want.Data) {
			t.Errorf("%s at %#x, %d bytes; with sections at %#x, %d bytes", got.Name, got.Addr, len(got.Data),
				want.Addr, len(want.Data))
		}
	}
	if _, err := bare.Symbols(); !errors.Is(err, ErrNoSection) {
		t.Errorf("Symbols: %v, want ErrNoSection", err)
	}
}

func TestDebugFileHasNoUnwindSections(t *testing.T) {
	f := open(t, onlyKeepDebug(t, compile(t, helloProgram, "-g")))
	if s, err := f.EHFrame(); !errors.Is(err, ErrNoSection) {
		t.Errorf("EHFrame: %+v, %v; want ErrNoSection", s, err)
	}
	if _, err := f.EHFrameHdr(); !errors.Is(err, ErrNoSection) {
		t.Errorf("EHFrameHdr: %v; want ErrNoSection", err)
	}
}

func TestCompressedSections(t *testing.T) {
	need.Tools(t, "objcopy")
	plain := compile(t, helloProgram, "-g", "-gz=none")
	for _, form := range []string{"zlib", "zlib-gnu", "zstd"} {
		path := filepath.Join(t.TempDir(), form)
		if out, err := exec.Command("objcopy", "--compress-debug-sections="+form, plain,
			path).CombinedOutput(); err != nil {
			need.Missing(t, "objcopy cannot compress with %s: %s", form, out)
		}
		f := open(t, path)
		for _, name := range []string{".debug_info", ".debug_line", ".debug_str"} {
			s, err := f.Section(name)
			if err != nil {
				t.Errorf("%s: %v", form, err)
				continue
			}
			if want := objcopySection(t, plain, name); !bytes.Equal(s.Data, want) {
				t.Errorf("%s %s: %d bytes, want the %d of the uncompressed file", form, name, len(s.Data), len(want))
			}
		}
	}
}

// TestOpenSection checks that opening sections does not read them, and that their content is equal
// to objcopy's.
func TestOpenSection(t *testing.T) {
	f := open(t, libc(t))
	for name, open := range map[string]func() (*SectionReader, error){".eh_frame": f.OpenEHFrame,
		".eh_frame_hdr": f.OpenEHFrameHdr} {
		var s *SectionReader
		var err error
		if used := allocatedBytes(func() { s, err = open() }); err != nil || used > 4096 {
			t.Fatalf("%s: %d bytes allocated, %v", name, used, err)
		}
		got := make([]byte, s.Size)
		if _, err := s.Data.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, objcopySection(t, libc(t), name)) {
			t.Errorf("%s: not what objcopy extracts", name)
		}
	}
	for i, text := range f.OpenText() {
		if want := f.TextSegments()[i]; text.Addr != want.Vaddr || text.Size != want.Filesz {
			t.Errorf("text segment at %#x, %d bytes; want %#x", text.Addr, text.Size, want)
		}
	}
}

func TestDebugLink(t *testing.T) {
	path := compile(t, helloProgram, "-g")
	debug := filepath.Join(t.TempDir(), "some name.debug")
	run(t, "objcopy", "--only-keep-debug", path, debug)
	run(t, "objcopy", "--add-gnu-debuglink="+debug, path)
	content, err := os.ReadFile(debug)
	if err != nil {
		t.Fatal(err)
	}
	name, crc, ok := open(t, path).DebugLink()
	if !ok || name != "some name.debug" || crc != crc32.ChecksumIEEE(content) {
		t.Errorf("debug link %q, %#x, %v; want %q, %#x", name, crc, ok, "some name.debug", crc32.ChecksumIEEE(content))
	}
	if _, _, ok := open(t, debug).DebugLink(); ok {
		t.Error("a debug link in the debug file")
	}
}

func TestTextSegmentsMatchReadelf(t *testing.T) {
	path := libc(t)
	segments := open(t, path).TextSegments()
	var want []Segment
	for line := range strings.Lines(run(t, "readelf", "-lW", path)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != "LOAD" || !strings.Contains(strings.Join(f[6:], ""), "E") {
			continue
		}
		hex := func(s string) uint64 { return parseHex(t, strings.TrimPrefix(s, "0x")) }
		want = append(want, Segment{Offset: hex(f[1]), Vaddr: hex(f[2]), Filesz: hex(f[4]), Memsz: hex(f[5])})
	}
	if len(segments) != len(want) || len(want) == 0 || segments[0] != want[0] {
		t.Errorf("text segments %#x, readelf says %#x", segments, want)
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, "/dev/zero"} {
		if _, err := Open(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("Open(%s): %v, want ErrNotRegular", path, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(text); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("a script: %v, want an error with its path", err)
	}
}

func TestTruncatedFileKeepsItsSegments(t *testing.T) {
	data, err := os.ReadFile(compile(t, helloProgram))
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(bytes.NewReader(data[:4096])) // the section headers are at the end
	if err != nil {
		t.Fatal(err)
	}
	if len(f.TextSegments()) == 0 {
		t.Error("no text segment")
	}
	if _, err := f.EHFrame(); err == nil {
		t.Error("EHFrame read past the end")
	}
}

// onlyKeepDebug returns the separate debug file of path.
func onlyKeepDebug(t *testing.T, path string) string {
	t.Helper()
	debug := filepath.Join(t.TempDir(), "debug")
	run(t, "objcopy", "--only-keep-debug", path, debug)
	return debug
}

// withoutSections returns a copy of the 64-bit ELF file without section headers.
func withoutSections(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[40:48]) // e_shoff
	clear(data[60:64]) // e_shnum, e_shstrndx
	out := filepath.Join(t.TempDir(), "sectionless")
	if err := os.WriteFile(out, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return out
}

func objcopySection(t *testing.T, path, section string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "section")
	run(t, "objcopy", "--dump-section", section+"="+out, path, "/dev/null")
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
