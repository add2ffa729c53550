package dwarfline

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// sectionsFrom reads the sections of a file into memory.
func sectionsFrom(t testing.TB, file string) *Sections {
	t.Helper()
	f, err := elffile.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &Sections{Order: f.ByteOrder()}
	for _, place := range sectionsOf(s) {
		if section, err := f.Section(place.name); err == nil {
			*place.data = section.Data
		}
	}
	return s
}

// TestDamaged requires that data with any wrong byte, or truncated at any byte, causes neither a
// panic nor a hang.
func TestDamaged(t *testing.T) {
	t.Parallel()
	program := built(t, "plain.c", "gcc", "-O2", "-g")
	addrs := codeAddresses(t, program, 20, 1)
	whole := sectionsFrom(t, program)
	for _, place := range sectionsOf(whole) {
		name, section := place.name, place.data
		original := *section
		step := max(1, len(original)/400)
		for i := 0; i < len(original); i += step {
			damaged := append([]byte(nil), original...)
			damaged[i] ^= 0xff
			*section = damaged
			lookUp(t, name, whole, addrs)
			*section = original[:i:i]
			lookUp(t, name, whole, addrs)
		}
		*section = original
	}
}

func lookUp(t *testing.T, name string, s *Sections, addrs []uint64) {
	t.Helper()
	copied := *s
	d, err := New(&copied, Options{})
	if err != nil {
		if !errors.Is(err, ErrNoInfo) {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	for _, addr := range addrs {
		if frames, _ := d.Frames(addr); len(frames) > maxFrames {
			t.Errorf("%s: %d frames", name, len(frames))
		}
	}
	if bytes := d.Bytes(); bytes > 1<<20 {
		t.Errorf("%s: %d bytes in use", name, bytes)
	}
}

// assembled makes the sections of one unit of DWARF 4 with these entries.
func assembled(abbrev string, entries ...byte) *Sections {
	info := []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}
	info = append(info, entries...)
	binary.LittleEndian.PutUint32(info, uint32(len(info)-4))
	return &Sections{Order: binary.LittleEndian, Info: info, Abbrev: []byte(abbrev)}
}

// Abbreviations: 1 is a unit with low_pc and high_pc, 2 a function with low_pc, high_pc and an
// abstract origin.
const circleAbbrevs = "\x01\x11\x01\x11\x01\x12\x06\x00\x00" + "\x02\x2e\x01\x11\x01\x12\x06\x31\x13\x00\x00" + "\x00"

// TestCircle requires an error for entries that refer to each other in a circle.
func TestCircle(t *testing.T) {
	low := []byte{0x00, 0x10, 0, 0, 0, 0, 0, 0, 0x00, 0x01, 0, 0}
	entries := append([]byte{1}, low...)
	at := byte(11 + len(entries))
	entries = append(append(append(entries, 2), low...), at, 0, 0, 0, 0, 0)
	d, err := New(assembled(circleAbbrevs, entries...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	frames, err := d.Frames(0x1010)
	var format *FormatError
	if !errors.As(err, &format) || len(frames) != 1 || frames[0].Function != "" {
		t.Errorf("got %+v, %v", frames, err)
	}
}

// TestHugeCounts requires an error without large allocations for counts that exceed the data.
func TestHugeCounts(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	u := &unit{file: &file{Sections: &Sections{Order: binary.LittleEndian}},
		header: header{encoding: encoding{version: 5, addressSize: 8, offsetSize: 4}}}
	table := []byte{0, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0, 1, 1, 1, 0xfb, 14, 1, 1, 1, 8}
	table = append(table, huge...)
	binary.LittleEndian.PutUint32(table, uint32(len(table)-4))
	u.Line = table
	if _, err := readLineTable(u, 0); err == nil {
		t.Error("a line table of 2^63 directories is read")
	}
	s := assembled("\x01\x11\x00\x00\x00\x00", 1)
	binary.LittleEndian.PutUint32(s.Info, 0xfffffff0-1)
	d, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if frames, err := d.Frames(0x1000); err == nil || frames != nil {
		t.Errorf("a unit of 4 GiB: %v, %v", frames, err)
	}
}

// TestTooMuchWork requires that work stops for a unit whose functions all have the same long list
// of ranges.
func TestTooMuchWork(t *testing.T) {
	t.Parallel()
	// 1: a unit with ranges; 2: a function with ranges, as all following entries.
	entries := []byte{1, 0, 0, 0, 0}
	for range 1 << 15 {
		entries = append(entries, 2, 0, 0, 0, 0)
	}
	s := assembled("\x01\x11\x01\x55\x17\x00\x00"+"\x02\x2e\x00\x55\x17\x00\x00"+"\x00", entries...)
	for range 1 << 14 {
		s.Ranges = binary.LittleEndian.AppendUint64(s.Ranges, 0x1000)
		s.Ranges = binary.LittleEndian.AppendUint64(s.Ranges, 0x2000)
	}
	s.Ranges = append(s.Ranges, make([]byte, 16)...)
	d, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Frames(0x1500); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("got %v", err)
	}
}

// TestTruncatedWhileMapped requires an error, not a crash, if a mapped file is truncated.
func TestTruncatedWhileMapped(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(built(t, "plain.c", "gcc", "-O2", "-g"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	addr := codeAddresses(t, program, 1, 1)[0]
	d := open(t, program)
	if err := os.Truncate(program, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Frames(addr); !errors.Is(err, ErrFault) {
		t.Errorf("got %v", err)
	}
	if _, err := d.Frames(addr); !errors.Is(err, ErrFault) {
		t.Errorf("again: %v", err)
	}
}

// TestMissingFiles requires lines without functions, and an error with the file's name, if a .dwo
// file is missing.
func TestMissingFiles(t *testing.T) {
	t.Parallel()
	program := build(t, "plain.c", "gcc", "-O2", "-g", "-gsplit-dwarf")
	files, err := filepath.Glob(filepath.Join(filepath.Dir(program), "*.dwo"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	d := open(t, program)
	for _, addr := range codeAddresses(t, program, 200, 1) {
		frames, err := d.Frames(addr)
		if len(frames) == 0 {
			continue // the C library's start-up code
		}
		if frames[0].Line == 0 || frames[0].Function != "" || !errors.Is(err, errNoSplit) {
			t.Fatalf("got %+v, %v", frames, err)
		}
		return
	}
	t.Error("no address has a line")
}

// TestCacheBudget requires that the memory of units stays within the budget, and that the results
// are the same.
func TestCacheBudget(t *testing.T) {
	t.Parallel()
	program := built(t, "templates.cc", "g++", "-O2", "-g")
	f, err := elffile.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	small, err := Open(f, OpenOptions{CacheBytes: 1, OpenFile: elffile.Open})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	large := open(t, program)
	for _, addr := range codeAddresses(t, program, 50, 1) {
		a, errA := small.Frames(addr)
		b, errB := large.Frames(addr)
		if text(a) != text(b) || errA != nil || errB != nil {
			t.Fatalf("%#x: %s, %v; %s, %v", addr, text(a), errA, text(b), errB)
		}
	}
	if n := small.cache.recent.Len(); n > 1 {
		t.Errorf("%d units are kept", n)
	}
}

// TestTooManyAbbreviations requires that indexing stops if every unit searches a long list of
// abbreviations for its root's.
func TestTooManyAbbreviations(t *testing.T) {
	t.Parallel()
	var abbrevs []byte
	for range 1 << 18 {
		abbrevs = append(abbrevs, 2, 0x11, 0, 0, 0)
	}
	one := assembled(string(abbrevs)+"\x01\x11\x00\x00\x00\x00", 1)
	var info []byte
	for range 1 << 12 {
		info = append(info, one.Info...)
	}
	one.Info = info
	d, err := New(one, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Frames(0x1000); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("got %v", err)
	}
}
