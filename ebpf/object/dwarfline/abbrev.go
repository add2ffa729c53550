package dwarfline

import (
	"debug/dwarf"
	"encoding/binary"
)

// field numbers the attributes that the package uses.
type field uint8

const (
	fieldName field = iota
	fieldLinkageName
	fieldLowPC
	fieldHighPC
	fieldRanges
	fieldAbstractOrigin
	fieldSpecification
	fieldCallFile
	fieldCallLine
	fieldDeclLine
	fieldStmtList
	fieldCompDir
	fieldDwoName
	fieldDwoID
	fieldAddrBase
	fieldStrOffsetsBase
	fieldRnglistsBase
	fieldRangesBase
	fieldLanguage
	fieldsNumber
	fieldNone = fieldsNumber
)

// GNU attributes that have another number in DWARF 5.
const (
	attrMIPSLinkageName dwarf.Attr = 0x2007
	attrGNUDwoName      dwarf.Attr = 0x2130
	attrGNUDwoID        dwarf.Attr = 0x2131
	attrGNURangesBase   dwarf.Attr = 0x2132
	attrGNUAddrBase     dwarf.Attr = 0x2133
)

// fieldOf returns the field for an attribute of entries with that tag, or fieldNone if it is not
// used.
func fieldOf(tag dwarf.Tag, attr dwarf.Attr) field {
	switch tag {
	case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
		return functionField(attr)
	case dwarf.TagCompileUnit, dwarf.TagPartialUnit, dwarf.TagSkeletonUnit, dwarf.TagTypeUnit:
		return unitField(attr)
	}
	return fieldNone
}

func functionField(attr dwarf.Attr) field {
	switch attr {
	case dwarf.AttrName:
		return fieldName
	case dwarf.AttrLinkageName, attrMIPSLinkageName:
		return fieldLinkageName
	case dwarf.AttrLowpc:
		return fieldLowPC
	case dwarf.AttrHighpc:
		return fieldHighPC
	case dwarf.AttrRanges:
		return fieldRanges
	case dwarf.AttrAbstractOrigin:
		return fieldAbstractOrigin
	case dwarf.AttrSpecification:
		return fieldSpecification
	case dwarf.AttrCallFile:
		return fieldCallFile
	case dwarf.AttrCallLine:
		return fieldCallLine
	case dwarf.AttrDeclLine:
		return fieldDeclLine
	}
	return fieldNone
}

func unitField(attr dwarf.Attr) field {
	switch attr {
	case dwarf.AttrLowpc:
		return fieldLowPC
	case dwarf.AttrHighpc:
		return fieldHighPC
	case dwarf.AttrRanges:
		return fieldRanges
	case dwarf.AttrStmtList:
		return fieldStmtList
	case dwarf.AttrCompDir:
		return fieldCompDir
	case dwarf.AttrDwoName, attrGNUDwoName:
		return fieldDwoName
	case attrGNUDwoID:
		return fieldDwoID
	case dwarf.AttrAddrBase, attrGNUAddrBase:
		return fieldAddrBase
	case dwarf.AttrStrOffsetsBase:
		return fieldStrOffsetsBase
	case dwarf.AttrRnglistsBase:
		return fieldRnglistsBase
	case attrGNURangesBase:
		return fieldRangesBase
	case dwarf.AttrLanguage:
		return fieldLanguage
	}
	return fieldNone
}

// step reads or skips one attribute, or skips several attributes of fixed size.
type step struct {
	implicit int64
	form     form // of a step that reads or skips one attribute; if 0, the step skips size bytes
	size     uint32
	field    field
}

const stepSize = 24

// abbrev describes entries of one kind: the steps that read the used attributes and skip the rest.
type abbrev struct {
	tag      dwarf.Tag
	children bool
	steps    []step
}

const abbrevSize = 40

// abbrevTable holds the abbreviations of a unit by code.
type abbrevTable struct {
	dense []abbrev // by code-1; tag 0 if there is no abbreviation
	other map[uint64]*abbrev
	bytes int
}

// maxAbbrevSteps bounds the memory of a table. Real tables have some thousands of steps.
const maxAbbrevSteps = 1 << 20

// getAbbrev returns the abbreviation with that code, nil if there is none.
func (t *abbrevTable) getAbbrev(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		if a := &t.dense[code-1]; a.tag != 0 {
			return a
		}
		return nil
	}
	return t.other[code]
}

func (t *abbrevTable) putAbbrev(code uint64, a abbrev) {
	t.bytes += abbrevSize + len(a.steps)*stepSize
	if code == uint64(len(t.dense))+1 {
		t.dense = append(t.dense, a)
		return
	}
	if t.getAbbrev(code) != nil {
		return // the first abbreviation with a code counts
	}
	if t.other == nil {
		t.other = map[uint64]*abbrev{}
	}
	t.other[code] = &a
}

// readAbbrevs reads the abbreviations at an offset of .debug_abbrev (section 7.5.3). It reads up to
// the abbreviation with code only and keeps just that one, or all if only is 0.
func readAbbrevs(data []byte, order binary.ByteOrder, at uint64, e encoding, only uint64,
	w *work) (*abbrevTable, error) {
	c := newCursor(".debug_abbrev", data, order, at)
	t := &abbrevTable{}
	kept := 0
	for c.err == nil {
		before := c.at
		code := c.uleb()
		if code == 0 {
			break
		}
		tag := dwarf.Tag(c.uleb())
		a := abbrev{tag: tag, children: c.u8() != 0}
		keep := only == 0 || code == only
		for c.err == nil {
			attr, f := dwarf.Attr(c.uleb()), form(c.uleb())
			var implicit int64
			if f == formImplicit {
				implicit = c.sleb()
			}
			if attr == 0 && f == 0 {
				break
			}
			if keep {
				a.addAttribute(e, fieldOf(tag, attr), f, implicit)
			}
			if len(a.steps) > maxAbbrevSteps {
				c.failWith("more attributes than any compiler writes")
			}
		}
		if kept += len(a.steps) + 1; kept > maxAbbrevSteps {
			c.failWith("more abbreviations than any compiler makes")
		}
		if err := w.spend(int(c.at - before)); err != nil {
			return nil, err
		}
		if keep {
			t.putAbbrev(code, a)
		}
		if code == only {
			break
		}
	}
	return t, c.err
}

// addAttribute appends an attribute, and merges skipped attributes of fixed size into one step.
func (a *abbrev) addAttribute(e encoding, keep field, f form, implicit int64) {
	size, fixed := e.fixedSize(f)
	if keep != fieldNone || !fixed {
		a.steps = append(a.steps, step{form: f, field: keep, implicit: implicit})
		return
	}
	if last := len(a.steps) - 1; last >= 0 && a.steps[last].form == 0 && a.steps[last].size < 1<<30 {
		a.steps[last].size += uint32(size)
		return
	}
	a.steps = append(a.steps, step{size: uint32(size), field: fieldNone})
}

// entry is a debugging information entry with the attributes that the package uses.
type entry struct {
	at       uint64 // offset in .debug_info
	tag      dwarf.Tag
	children bool
	has      uint32 // a bit for each field
	values   [fieldsNumber]value
}

func (d *entry) getField(f field) (value, bool) { return d.values[f], d.has&(1<<f) != 0 }

// bytesPerStep is the number of bytes of an entry, including blocks and strings, that count as one
// step.
const bytesPerStep = 256

// readEntry reads the entry at c into d. A null entry, which ends a list of children, has tag 0. It
// returns the number of steps.
func (t *abbrevTable) readEntry(c *cursor, e encoding, d *entry) (steps int) {
	d.at, d.tag, d.children, d.has = c.at, 0, false, 0
	code := c.uleb()
	if code == 0 {
		return 1
	}
	a := t.getAbbrev(code)
	if a == nil {
		c.failWith("an entry whose abbreviation does not exist")
		return 1
	}
	d.tag, d.children = a.tag, a.children
	for i := range a.steps {
		s := &a.steps[i]
		switch {
		case s.form == 0:
			c.skipBytes(uint64(s.size))
		case s.field == fieldNone:
			e.skipValue(c, s.form)
		default:
			v := e.readValue(c, s.form)
			if s.form == formImplicit {
				v.n = uint64(s.implicit)
			}
			d.values[s.field] = v
			d.has |= 1 << s.field
		}
	}
	return 1 + len(a.steps) + int((c.at-d.at)/bytesPerStep)
}
