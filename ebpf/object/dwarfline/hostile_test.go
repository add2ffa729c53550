package dwarfline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"
)

// A section of zeros, which a sparse file may have in any size, consists of empty units.
func TestEmptyUnits(t *testing.T) {
	f := &file{Sections: &Sections{Order: binary.LittleEndian, Info: make([]byte, 8*maxUnits)}}
	if err := indexUnits(f, &work{left: MaxWork}); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("%v", err)
	}
}

// Directories take four bytes each, even if their names are short.
func TestDirectoriesWithoutEnd(t *testing.T) {
	names := bytes.Repeat([]byte("a\x00"), 16*maxFiles)
	table := &lineTable{}
	c := newCursor(".debug_line", names, binary.LittleEndian, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	table.readOldEntries(&c)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; c.err == nil || used > 64<<20 {
		t.Errorf("%v, %d MiB allocated", c.err, used>>20)
	}
}

func TestAttributesWithoutEnd(t *testing.T) {
	// DW_AT_name, DW_FORM_string
	data := append([]byte{1, 0x11, 0}, bytes.Repeat([]byte{0x03, 0x08}, 8*maxAbbrevSteps)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAbbrevs(data, binary.LittleEndian, 0, encoding{version: 4, addressSize: 8, offsetSize: 4}, 0,
		&work{left: MaxWork})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 160<<20 {
		t.Errorf("%v, %d MiB allocated", err, used>>20)
	}
}

// Reads of lists of any length, and of unterminated numbers and strings, are bounded.
func TestWithoutEnd(t *testing.T) {
	u := &unit{header: header{encoding: encoding{version: 4, addressSize: 8, offsetSize: 4}}}
	u.file = &file{Sections: &Sections{Order: binary.LittleEndian,
		Ranges: bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 2*maxRangeList+8)}}
	u.ranges = u.file
	if steps, err := u.oldRangeList(0, func(addressRange) {}); !errors.Is(err, ErrTooMuchWork) ||
		steps > maxRangeList+1 {
		t.Errorf("old ranges: %d steps, %v", steps, err)
	}
	u.RngLists = bytes.Repeat([]byte{rleOffsetPair, 0, 0}, maxRangeList+2)
	if steps, err := u.newRangeList(0, func(addressRange) {}); !errors.Is(err, ErrTooMuchWork) ||
		steps > maxRangeList+1 {
		t.Errorf("new ranges: %d steps, %v", steps, err)
	}
	for name, read := range map[string]func(*cursor){
		"uleb": func(c *cursor) { c.uleb() }, "sleb": func(c *cursor) { c.sleb() },
		"skipped": func(c *cursor) { c.skipLEB() }, "text": func(c *cursor) { c.cstring() },
	} {
		c := newCursor("", bytes.Repeat([]byte{0x80}, 2*maxString), binary.LittleEndian, 0)
		if read(&c); c.err == nil {
			t.Errorf("%s: no error", name)
		}
		c = newCursor("", append(bytes.Repeat([]byte{0x80}, maxLEB-1), 0, 7), binary.LittleEndian, 0)
		if read(&c); c.err != nil || c.u8() != 7 && name != "text" {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// Short pieces count as work: sequences of lines, address ranges, slots of a package's index.
func TestShortPiecesCount(t *testing.T) {
	const pieces = 1000
	table := &lineTable{unit: &unit{file: &file{Sections: &Sections{Order: binary.LittleEndian}}}, lineRange: 1,
		opcodeBase: 10, opcodeLengths: make([]uint8, 9), maxOperations: 1}
	table.data = bytes.Repeat([]byte{lnsCopy, 0, 1, lneEndSequence}, pieces)
	w := &work{left: MaxWork}
	if err := table.findSequences(w); err != nil || MaxWork-w.left != 2*pieces {
		t.Errorf("lines: %v, %d steps", err, MaxWork-w.left)
	}
	if err := table.findSequences(&work{left: pieces}); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("lines: %v", err)
	}

	set := binary.LittleEndian.AppendUint32(nil, 12+16)
	set = append(set, 2, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0)
	set = binary.LittleEndian.AppendUint64(set, 0x1000)
	set = binary.LittleEndian.AppendUint64(set, 8)
	f := &file{Sections: &Sections{Order: binary.LittleEndian, Aranges: bytes.Repeat(set, pieces)}}
	ranges := 0
	if err := f.eachArange(&work{left: pieces}, func(uint64,
		addressRange) {
		ranges++
	}); !errors.Is(err, ErrTooMuchWork) || ranges == 0 {
		t.Errorf("aranges: %v", err)
	}

	index := binary.LittleEndian.AppendUint32(nil, 2)
	for _, n := range []uint32{1, 0, 2 * pieces} { // columns, units, slots
		index = binary.LittleEndian.AppendUint32(index, n)
	}
	index = append(index, make([]byte, 2*pieces*12+4)...)
	if _, err := readCUIndex(&Sections{Order: binary.LittleEndian, CUIndex: index},
		&work{left: pieces}); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("index of a package: %v", err)
	}
}

// An unreadable unit is read only once, not for each address.
func TestErrorsAreRemembered(t *testing.T) {
	t.Parallel()
	root := "\x01\x11\x01\x11\x01\x12\x06\x00\x00"
	// the second abbreviation is cut off
	s := assembled(root+"\x02\x2e", 1, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0)
	d, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, first := d.Frames(0x1001)
	_, ofReference := d.cache.readUnit(d.main, 0, &work{left: MaxWork})
	s.Abbrev = []byte(root + "\x00") // would be read without error
	_, second := d.Frames(0x1002)
	_, again := d.cache.readUnit(d.main, 0, &work{left: MaxWork})
	for _, err := range []error{first, second, ofReference, again} {
		var format *FormatError
		if !errors.As(err, &format) || format.Section != ".debug_abbrev" {
			t.Errorf("got %v", err)
		}
	}
}

// All lookups in a file share a limit, which grows with time.
func TestWorkOfFile(t *testing.T) {
	start := time.Unix(1000, 0)
	a := allowance{left: MaxFileWork, at: start}
	lookups := 0
	for a.workWithin(start, func(w *work) { w.left = 0 }) == nil {
		lookups++
	}
	if lookups != MaxFileWork/MaxWork {
		t.Errorf("%d lookups", lookups)
	}
	all := func(w *work) { w.left = 0 }
	if err := a.workWithin(start.Add(MaxWork/FileWorkPerSecond*time.Second-1), all); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("a moment too early: %v", err)
	}
	if err := a.workWithin(start.Add(MaxWork/FileWorkPerSecond*time.Second+time.Second), all); err != nil {
		t.Error(err)
	}
	a.workWithin(start.Add(1e6*time.Hour), func(*work) {})
	if a.left != MaxFileWork {
		t.Errorf("%d steps after a long time", a.left)
	}
}
