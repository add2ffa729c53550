package dwarfline

import (
	"errors"
	"fmt"
)

// maxReferences bounds a chain of entries that refer to each other, which in
// damaged data may be a circle.
const maxReferences = 32

// errNoSupplementary tells that entries are in a file that was not found.
var errNoSupplementary = errors.New("the supplementary DWARF file is missing")

// supplementary returns the file that dwz moved common entries to.
func (d *Data) supplementary() (*file, error) {
	f, err := d.sup.get()
	if f == nil {
		if err == nil {
			err = errNoSupplementary
		}
		return nil, err
	}
	return f, nil
}

// functionName returns the linkage name of a function's entry or of one that it
// refers to as its abstract origin or specification, or else the name nearest in
// that chain.
//
// linkage tells that the linker knows the function by that name, too.
func (d *Data) functionName(u *unit, e *entry, w *work) (name string, linkage bool, err error) {
	for range maxReferences {
		if v, ok := e.get(fieldLinkageName); ok {
			text, err := u.text(v, d.supplementary)
			if err == nil && text != "" {
				return text, true, nil
			}
		}
		if v, ok := e.get(fieldName); ok && name == "" {
			text, err := u.text(v, d.supplementary)
			if err != nil {
				return "", false, err
			}
			name, linkage = text, !u.manglesNames()
		}
		ref, ok := e.get(fieldAbstractOrigin)
		if !ok {
			ref, ok = e.get(fieldSpecification)
		}
		if !ok {
			return name, linkage, nil
		}
		next, at, err := d.follow(u, ref, w)
		if err != nil {
			return name, linkage, err
		}
		e = &entry{}
		c := next.cursor(at)
		next.abbrevs.readEntry(&c, next.encoding, e)
		if c.err != nil {
			return name, linkage, c.err
		}
		u = next
	}
	return name, linkage, &FormatError{".debug_info", e.at, "entries refer to each other in a circle"}
}

// follow returns the unit and offset of the entry that a reference means.
func (d *Data) follow(u *unit, ref value, w *work) (*unit, uint64, error) {
	f, at := u.file, ref.n
	switch ref.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		if at >= u.end-u.at {
			return nil, 0, &FormatError{".debug_info", u.at, fmt.Sprintf("a reference to %#x, behind the unit's end", at)}
		}
		return u, u.at + at, nil
	case formRefAddr:
	case formGNURefAlt, formRefSup4, formRefSup8:
		var err error
		if f, err = d.supplementary(); err != nil {
			return nil, 0, err
		}
	default:
		return nil, 0, &FormatError{".debug_info", u.at, fmt.Sprintf("form %#x is no reference that is known", uint16(ref.form))}
	}
	if f == u.file && at >= u.first && at < u.end {
		return u, at, nil
	}
	if f.units == nil {
		d.err = firstError(d.err, indexUnits(f))
	}
	number, ok := f.unitOf(at)
	if !ok {
		return nil, 0, &FormatError{".debug_info", at, "a reference to no unit"}
	}
	other, err := d.cache.unit(f, f.units[number], w)
	if err != nil {
		return nil, 0, err
	}
	if at < other.first || at >= other.end {
		return nil, 0, &FormatError{".debug_info", at, "a reference to no entry"}
	}
	return other, at, nil
}
