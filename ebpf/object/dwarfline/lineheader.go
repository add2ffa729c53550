package dwarfline

import (
	"fmt"
	"path"
)

// lineTable holds the header of a unit's line program and the sequences of the program (DWARF 5
// section 6.2).
type lineTable struct {
	unit *unit  // the table uses its forms, strings and directory
	data []byte // .debug_line up to the end of the table
	encoding
	program uint64 // offset of the first opcode

	minInstruction uint8
	maxOperations  uint8
	lineBase       int8
	lineRange      uint8
	opcodeBase     uint8
	opcodeLengths  []uint8 // length of opcode i at index i-1

	dirFormat, fileFormat []entryFormat
	dirs, files           []uint32 // offsets of the entries in data
	sequences             []sequence
}

// entryFormat is the format of one part of a directory or file entry (section 6.2.4.1).
type entryFormat struct {
	content uint64
	form    form
}

// Content types of a part of an entry.
const (
	contentPath      = 1
	contentDirectory = 2
)

// maxFiles bounds the entries of one table.
const maxFiles = 1 << 20

// oldFormat is the format of files before version 5: name, directory, modification time, size. A
// directory has only a name.
var oldFormat = []entryFormat{{contentPath, formString}, {contentDirectory, formUdata}, {0, formUdata}, {0, formUdata}}

// readLineTable reads the table at an offset of the .debug_line of u's file.
func readLineTable(u *unit, at uint64) (*lineTable, error) {
	c := newCursor(".debug_line", u.Line, u.Order, at)
	t := &lineTable{unit: u, encoding: u.encoding}
	t.offsetSize = c.unitLength()
	t.data = c.data
	version := c.fixed(2)
	if c.err == nil && (version < 2 || version > 5) {
		c.failWith(fmt.Sprintf("unknown version %d of the line table", version))
	}
	if uint64(len(t.data)) > 1<<32-1 {
		c.failWith("a line table beyond the first 4 GiB")
	}
	t.version = uint8(version)
	if version >= 5 {
		t.addressSize = c.u8()
		c.u8() // size of segment selectors
	}
	length := c.fixed(t.offsetSize)
	if length > uint64(len(c.data))-c.at {
		c.failWith("the header's length points past the end of the table")
	}
	t.program = c.at + length
	t.minInstruction, t.maxOperations = c.u8(), 1
	if version >= 4 {
		t.maxOperations = c.u8()
	}
	c.u8() // default_is_stmt
	t.lineBase, t.lineRange, t.opcodeBase = int8(c.u8()), c.u8(), c.u8()
	if c.err == nil && (t.lineRange == 0 || t.opcodeBase == 0 || t.maxOperations == 0) {
		c.failWith("a zero that the line program would divide by")
	}
	if t.opcodeBase > 0 {
		t.opcodeLengths = c.takeBytes(uint64(t.opcodeBase) - 1)
	}
	if version >= 5 {
		t.readEntries(&c)
	} else {
		t.readOldEntries(&c)
	}
	return t, c.err
}

// readOldEntries finds the directory and file entries of versions before 5.
func (t *lineTable) readOldEntries(c *cursor) {
	t.dirFormat, t.fileFormat = oldFormat[:1], oldFormat
	for c.more() && len(t.dirs) <= maxFiles {
		at := c.at
		if len(c.cstring()) == 0 {
			break
		}
		t.dirs = append(t.dirs, uint32(at))
	}
	for c.more() && len(t.files) <= maxFiles {
		at := c.at
		if len(c.cstring()) == 0 {
			break
		}
		c.skipLEB()
		c.skipLEB()
		c.skipLEB()
		t.files = append(t.files, uint32(at))
	}
	if len(t.dirs) > maxFiles || len(t.files) > maxFiles {
		c.failWith("more files than any compiler names")
	}
}

func (t *lineTable) readEntries(c *cursor) {
	t.dirFormat, t.dirs = t.readEntryList(c)
	t.fileFormat, t.files = t.readEntryList(c)
}

func (t *lineTable) readEntryList(c *cursor) (formats []entryFormat, entries []uint32) {
	for range c.u8() {
		f := entryFormat{c.uleb(), form(c.uleb())}
		if size, fixed := t.fixedSize(f.form); fixed && size == 0 {
			c.failWith("a directory or file entry of no bytes")
		}
		formats = append(formats, f)
	}
	count := c.uleb()
	if c.err != nil || count == 0 {
		return formats, nil
	}
	if count > maxFiles || len(formats) == 0 {
		c.failWith("more files than any compiler names")
		return formats, nil
	}
	for range count {
		if c.err != nil {
			break
		}
		entries = append(entries, uint32(c.at))
		for _, f := range formats {
			t.skipValue(c, f.form)
		}
	}
	return formats, entries
}

// entryAt reads the entry at an offset of data.
func (t *lineTable) entryAt(at uint32, formats []entryFormat,
	sup func() (*file, error)) (name string, dir uint64, err error) {
	c := newCursor(".debug_line", t.data, t.unit.Order, uint64(at))
	for _, f := range formats {
		v := t.readValue(&c, f.form)
		if c.err != nil {
			return "", 0, c.err
		}
		switch f.content {
		case contentPath:
			if name, err = t.textOf(v, sup); err != nil {
				return "", 0, err
			}
		case contentDirectory:
			dir = v.n
		}
	}
	return name, dir, nil
}

func (t *lineTable) textOf(v value, sup func() (*file, error)) (string, error) {
	if v.form == formString {
		return stringAt(".debug_line", t.data, v.n)
	}
	return t.unit.textOf(v, sup)
}

// fileName returns the path of the file with that number, "" if there is none. The path consists of
// the compilation directory, the file's directory and its name. It is not cleaned, as in BFD.
func (t *lineTable) fileName(number uint64, sup func() (*file, error)) (string, error) {
	index, dirBase := number, uint64(0)
	if t.version < 5 { // numbers start with 1, and directory 0 is the compilation directory
		index, dirBase = number-1, 1
	}
	if index >= uint64(len(t.files)) {
		return "", nil
	}
	name, dir, err := t.entryAt(t.files[index], t.fileFormat, sup)
	if err != nil || name == "" || path.IsAbs(name) {
		return name, err
	}
	folder := ""
	if i := dir - dirBase; i < uint64(len(t.dirs)) {
		if folder, _, err = t.entryAt(t.dirs[i], t.dirFormat, sup); err != nil {
			return "", err
		}
	}
	if path.IsAbs(folder) {
		return folder + "/" + name, nil
	}
	compDir := ""
	if v, ok := t.unit.root.getField(fieldCompDir); ok {
		if compDir, err = t.unit.textOf(v, sup); err != nil {
			return "", err
		}
	}
	for _, part := range []string{folder, compDir} {
		if part != "" {
			name = part + "/" + name
		}
	}
	return name, nil
}

func (t *lineTable) bytes() int {
	return 256 + cap(t.dirs)*4 + cap(t.files)*4 + cap(t.sequences)*sequenceSize
}
