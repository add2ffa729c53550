package dwarfline

import (
	"errors"
	"fmt"
)

// maxReferences bounds a chain of references between entries. In damaged data it may be a circle.
const maxReferences = 32

// errNoSupplementary says that entries are in a supplementary file that was not found.
var errNoSupplementary = errors.New("the supplementary DWARF file is missing")

// supplementary returns the file into which dwz moved common entries.
func (d *Data) supplementary() (*file, error) {
	f, err := d.sup.openFile()
	if f == nil {
		if err == nil {
			err = errNoSupplementary
		}
		return nil, err
	}
	return f, nil
}

// describe sets the function's names and line in a frame. It follows the chain of abstract origins
// and specifications from the entry e. It takes the first linkage name or else the first name in
// the chain, and the first line.
func (d *Data) describe(f *Frame, u *unit, e *entry, w *work) error {
	f.Function, f.Linkage, f.StartLine = "", false, 0
	whole := false // Function is the linkage name
	for range maxReferences {
		if v, ok := e.getField(fieldDeclLine); ok && f.StartLine == 0 {
			f.StartLine = lineNumber(v.n)
		}
		if v, ok := e.getField(fieldLinkageName); ok && !whole {
			text, err := u.textOf(v, d.supplementary)
			if err == nil && text != "" {
				f.Function, f.Linkage, whole = text, true, true
			}
		}
		if v, ok := e.getField(fieldName); ok && f.Function == "" {
			text, err := u.textOf(v, d.supplementary)
			if err != nil {
				return err
			}
			f.Function, f.Linkage = text, !u.manglesNames()
		}
		ref, ok := e.getField(fieldAbstractOrigin)
		if !ok {
			ref, ok = e.getField(fieldSpecification)
		}
		if !ok || whole && f.StartLine != 0 {
			return nil
		}
		next, at, err := d.follow(u, ref, w)
		if err != nil {
			return err
		}
		e = &entry{}
		c := next.cursor(at)
		steps := next.abbrevs.readEntry(&c, next.encoding, e)
		if err := firstError(c.err, w.spend(steps)); err != nil {
			return err
		}
		u = next
	}
	return &FormatError{".debug_info", e.at, "entries refer to each other in a circle"}
}

// follow returns the unit and offset of the entry that a reference refers to.
func (d *Data) follow(u *unit, ref value, w *work) (*unit, uint64, error) {
	f, at := u.file, ref.n
	switch ref.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if at >= u.end-u.at {
			return nil, 0, &FormatError{".debug_info", u.at,
				fmt.Sprintf("a reference to %#x, beyond the unit's end", at)}
		}
		return u, u.at + at, nil
	case formRefAddr:
	case formGNURefAlt, formRefSup4, formRefSup8:
		var err error
		if f, err = d.supplementary(); err != nil {
			return nil, 0, err
		}
	default:
		return nil, 0, &FormatError{".debug_info", u.at,
			fmt.Sprintf("form %#x is no reference that is known", uint16(ref.form))}
	}
	if f == u.file && at >= u.first && at < u.end {
		return u, at, nil
	}
	if f.units == nil {
		d.err = firstError(d.err, indexUnits(f, w))
	}
	number, ok := f.unitOf(at)
	if !ok {
		return nil, 0, &FormatError{".debug_info", at, "a reference to no unit"}
	}
	other, err := d.cache.readUnit(f, f.units[number], w)
	if err != nil {
		return nil, 0, err
	}
	if at < other.first || at >= other.end {
		return nil, 0, &FormatError{".debug_info", at, "a reference to no entry"}
	}
	return other, at, nil
}
